import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { createInbox, type Database, type Inbox, migrate, newOwnerToken } from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { type BundledChild, bundleChild } from "../support/bundled-child.js";
import { postgresHarness } from "../support/postgres-harness.js";

const total = Number(process.env.ONCEBOX_TEST_DEAD_MESSAGES ?? 300);
const kills = 3;

describe(`a replay of ${total} dead messages, killed ${kills} times and resumed`, () => {
  let child: BundledChild;
  beforeAll(async () => {
    child = await bundleChild(fileURLToPath(new URL("./replay-child.ts", import.meta.url)));
  });
  afterAll(() => child?.remove());

  const fill = async (inbox: Inbox): Promise<void> => {
    const owner = newOwnerToken();
    const message = { source: "s", topic: "work", payload: "x" };
    for (let from = 0; from < total; from += 500) {
      const size = Math.min(500, total - from);
      await inbox.enqueue(
        Array.from({ length: size }, (_, i) => ({ ...message, messageId: String(from + i) })),
      );
      await inbox.fail(owner, await inbox.claim({ owner, batchSize: size }), "503");
    }
    expect(await inbox.countDead()).toBe(total);
  };

  /** Runs the child; kills it when it has come to `killAt`. Returns the operation's id. */
  const replay = async (url: string, schema: string, resume: string, killAt: number): Promise<string> => {
    const args = ["--no-warnings", child.path, url, schema, String(total), resume];
    const running = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    const exited = once(running, "exit");
    let id = resume;
    for await (const line of createInterface({ input: running.stdout })) {
      const [operation, done] = line.split(" ");
      id = operation!;
      if (Number(done) >= killAt) running.kill("SIGKILL");
    }
    const [code, signal] = await exited;
    expect(killAt < total ? signal : code).toBe(killAt < total ? "SIGKILL" : 0);
    return id;
  };

  /** Every replayed message dies again at once, so one that is replayed twice would be claimed twice. */
  const account = async (db: Database, url: string, schema: string | undefined): Promise<void> => {
    const options = schema === undefined ? {} : { schema };
    await migrate(db, options);
    const inbox = createInbox(db, options);
    await fill(inbox);
    const owner = newOwnerToken();
    const claims = new Map<string, number>();
    const die = async (): Promise<void> => {
      for (;;) {
        const claimed = await inbox.claim({ owner, batchSize: 500 });
        if (claimed.length === 0) return;
        for (const { messageId } of claimed) claims.set(messageId, (claims.get(messageId) ?? 0) + 1);
        await inbox.fail(owner, claimed, "503");
      }
    };
    let id = "";
    for (let kill = 1; kill <= kills; kill++) {
      id = await replay(url, schema ?? "", id, Math.ceil((total * kill) / (kills + 1)));
      await die();
      const [operation] = await inbox.operations();
      expect(operation).toMatchObject({ id, matched: total, done: claims.size, endedAt: null });
    }
    await replay(url, schema ?? "", id, total + 1);
    await die();
    expect(claims.size).toBe(total);
    expect([...claims.values()].every((count) => count === 1)).toBe(true);
    expect(await inbox.operations()).toMatchObject([{ id, matched: total, done: total }]);
    expect(await inbox.countDead()).toBe(total);
  };

  it("ADD-02 replays each message once on PostgreSQL", async () => {
    const url = inject("postgresUrl");
    const database = await postgresHarness(url).open();
    await account(database.db, url, database.schema);
    await database.close();
  }, 240_000);

  it("ADD-02 replays each message once on a SQLite file", async () => {
    const folder = await mkdtemp(join(tmpdir(), "oncebox-replay-"));
    const file = join(folder, "shared.db");
    const db = openSqlite({ file });
    await account(db, file, undefined);
    await db.close();
    await rm(folder, { recursive: true, force: true });
  }, 240_000);
});
