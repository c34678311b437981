import { connect, createServer, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { statement } from "../../src/sql/driver.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { type StartedServer, startPostgres } from "../support/start-postgres.js";

const backend = statement("backend", "select pg_backend_pid() as pid");

describe("a connection made ahead of the first call", () => {
  let server: StartedServer;
  beforeAll(async () => {
    server = await startPostgres();
  }, 60_000);
  afterAll(() => server.stop());

  it("FUN-12 is used by the first call, also while it is being opened", async () => {
    const db = openPostgres({ url: server.url });
    try {
      const opening = db.driver.open!();
      const [first] = await db.driver.query(backend, {});
      await opening;
      const [second] = await db.driver.query(backend, {});
      expect(second).toEqual(first);
      const count = statement(
        "count",
        "select count(*)::int as count from pg_stat_activity where backend_type = 'client backend'",
      );
      expect(await db.driver.query(count, {})).toEqual([{ count: 1 }]);
    } finally {
      await db.close();
    }
  });

  it("FUN-12 is not kept when it fails: the next call opens one", async () => {
    const { port } = new URL(server.url);
    const refused = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => refused.listen(0, "127.0.0.1", resolve));
    const { port: at } = refused.address() as { port: number };
    const db = openPostgres({ url: server.url.replace(port, String(at)) });
    try {
      await expect(db.driver.open!()).rejects.toThrow();
      await new Promise((resolve) => refused.close(resolve));
      const forwarded = createServer((socket) => pipe(socket, Number(port)));
      await new Promise<void>((resolve) => forwarded.listen(at, "127.0.0.1", resolve));
      try {
        expect(await db.driver.query(backend, {})).toHaveLength(1);
      } finally {
        await db.close();
        await new Promise((resolve) => forwarded.close(resolve));
      }
    } finally {
      await db.close();
    }
  });

  it("FUN-12 opens a SQLite file, and says so when it cannot", async () => {
    const memory = openSqlite({ file: ":memory:" });
    await memory.driver.open!();
    expect(await memory.driver.query(statement("one", "select 1 as one"), {})).toEqual([{ one: 1 }]);
    await memory.close();
    const nowhere = openSqlite({ file: "/nowhere/at/all.db" });
    await expect(nowhere.driver.open!()).rejects.toThrow(/cannot be opened/);
    await nowhere.close();
  });
});

function pipe(socket: Socket, port: number): void {
  const other = connect(port, "127.0.0.1");
  socket.pipe(other).pipe(socket);
  for (const end of [socket, other]) end.on("error", () => {});
}
