import { chmod, chown, copyFile, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createInbox, createOutbox, migrate, statement } from "../../src/index.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { type StartedServer, startPostgres } from "../support/start-postgres.js";

const file = (name: string) => fileURLToPath(new URL(`../support/tls/${name}`, import.meta.url));

/** Gives a running server its certificate, which it loads without a restart. */
async function turnOnTls(url: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  const { rows } = await client.query<{ data_directory: string }>("show data_directory");
  const folder = rows[0]!.data_directory;
  const { uid, gid } = await stat(folder);
  for (const name of ["server.crt", "server.key"]) {
    const copy = join(folder, name);
    await copyFile(file(name), copy);
    await chmod(copy, 0o600); // or the server refuses it
    await chown(copy, uid, gid);
  }
  await client.query("alter system set ssl = on");
  await client.query("select pg_reload_conf()");
  await client.end();
}

describe.skipIf(process.env.ONCEBOX_TEST_POSTGRES_URL)("an encrypted connection to PostgreSQL", () => {
  let server: StartedServer;
  beforeAll(async () => {
    server = await startPostgres();
    await turnOnTls(server.url);
  });
  afterAll(() => server?.stop());

  it("IBX-128 OBX-107 everything goes through TLS, and the server's certificate is checked", async () => {
    const ca = await readFile(file("server.crt"), "utf8");
    const db = openPostgres({ url: server.url, config: { ssl: { ca } } });
    await expect.poll(() => migrate(db).then(() => "up")).toBe("up"); // the server reloads its settings a moment later
    const inbox = createInbox(db);
    expect(await inbox.receive({ source: "s", messageId: "1", topic: "t", payload: "" })).toBe("enqueued");
    expect(await createOutbox(db).enqueue({ topic: "t", payload: "" })).toBeDefined();
    const [row] = await db.driver.query(
      statement("tls", "select ssl, version from pg_stat_ssl where pid = pg_backend_pid()"),
      {},
    );
    expect(row).toMatchObject({ ssl: true, version: expect.stringMatching(/^TLSv1\.[23]$/) });
    await db.close();
  });

  it("IBX-128 OBX-107 a server with a self-signed certificate is refused", async () => {
    const db = openPostgres({ url: `${server.url}?sslmode=verify-full` });
    await expect(migrate(db)).rejects.toThrow(/self-signed certificate/);
    await db.close();
  });
});
