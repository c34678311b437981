import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { sleep } from "../../src/base/async.js";
import { createInbox, type Database, type Inbox, migrate, newOwnerToken } from "../../src/index.js";
import { operatorsOf } from "../../src/operators/operators-of.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { type BundledChild, bundleChild } from "../support/bundled-child.js";
import { cli } from "../support/cli.js";
import { postgresHarness } from "../support/postgres-harness.js";
import { times } from "../support/times.js";

const total = times(300);
const others = 5;
const kills = 3;

describe(`oncebox dead replay of ${total} messages, killed ${kills} times and resumed`, () => {
  let command: BundledChild;
  beforeAll(async () => {
    command = await bundleChild(fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url)));
  });
  afterAll(() => command?.remove());

  const enqueueDead = async (inbox: Inbox, topic: string, size: number): Promise<void> => {
    const owner = newOwnerToken();
    for (let from = 0; from < size; from += 500) {
      const ids = Array.from({ length: Math.min(500, size - from) }, (_, i) => `${topic}-${from + i}`);
      await inbox.enqueue(ids.map((messageId) => ({ source: "s", topic, payload: "x", messageId })));
      await inbox.fail(owner, await inbox.claim({ owner, batchSize: ids.length }), "503");
    }
  };

  /** Runs the command in a process of its own, and kills that when `killAt` messages are replayed. */
  const replay = async (inbox: Inbox, args: readonly string[], killAt?: number) => {
    const child = spawn(process.execPath, ["--no-warnings", command.path, "dead", "replay", ...args], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    const exited = once(child, "exit");
    const output = Promise.all([text(child.stdout), text(child.stderr)]);
    while (killAt !== undefined && child.exitCode === null && child.signalCode === null) {
      const [operation] = await operatorsOf(inbox).operations();
      if (operation !== undefined && operation.done >= killAt) child.kill("SIGKILL");
      await sleep(5);
    }
    const [code, signal] = await exited;
    const [out, err] = await output;
    return { code, signal, out: out.trim(), err: err.trim() };
  };

  /** Every replayed message dies again at once, so one that is replayed twice would be claimed twice. */
  const account = async (db: Database, database: string, schema: string | undefined): Promise<void> => {
    const options = schema === undefined ? {} : { schema };
    const where = ["--database", database, ...(schema === undefined ? [] : ["--schema", schema])];
    await migrate(db, options);
    const inbox = createInbox(db, options);
    await enqueueDead(inbox, "x", total);
    await enqueueDead(inbox, "other", others);
    const owner = newOwnerToken();
    const claims = new Map<string, number>();
    const dieAgain = async (): Promise<void> => {
      for (;;) {
        const claimed = await inbox.claim({ owner, batchSize: 500 });
        if (claimed.length === 0) return;
        for (const { messageId } of claimed) claims.set(messageId, (claims.get(messageId) ?? 0) + 1);
        await inbox.fail(owner, claimed, "503");
      }
    };
    const conditions = ["--topic", "x", ...where];
    expect(await replay(inbox, ["--dry-run", ...conditions])).toMatchObject({
      code: 0,
      out: `${total} would be replayed.`,
    });
    expect(await operatorsOf(inbox).countDead()).toBe(total + others);

    const rate = ["--rate", String(total)];
    let resumed = conditions;
    for (let kill = 1; kill <= kills; kill++) {
      const killAt = Math.ceil((total * kill) / (kills + 1));
      expect(await replay(inbox, [...resumed, ...rate], killAt)).toEqual({
        code: null,
        signal: "SIGKILL",
        out: "",
        err: kill === 1 ? expect.stringMatching(/^Operation \S+: \d+ in the inbox\.$/) : "",
      });
      await dieAgain();
      const [operation] = (await cli("dead", "operations", "--json", ...where)).out.split("\n");
      const { id, ...record } = JSON.parse(operation!);
      expect(record).toMatchObject({
        action: "replay",
        filter: { topic: "x" },
        matched: total,
        endedAt: null,
      });
      resumed = ["--resume", id, ...where];
    }
    expect(await replay(inbox, resumed)).toMatchObject({
      code: 0,
      out: expect.stringMatching(`^Replayed \\d+ now, ${total} in all\\.$`),
      err: "",
    });
    await dieAgain();
    expect(claims.size).toBe(total);
    expect([...claims].filter(([id, count]) => count !== 1 || !id.startsWith("x-"))).toEqual([]);
    expect(await operatorsOf(inbox).operations()).toMatchObject([{ matched: total, done: total }]);
    expect(await operatorsOf(inbox).countDead()).toBe(total + others);
  };

  it("ADD-02 ADD-07 replays each message once on PostgreSQL", async () => {
    const url = inject("postgresUrl");
    const database = await postgresHarness(url).open();
    await account(database.db, url, database.schema);
    await database.close();
  }, 240_000);

  it("ADD-02 ADD-07 replays each message once on a SQLite file", async () => {
    const folder = await mkdtemp(join(tmpdir(), "oncebox-replay-"));
    const file = join(folder, "shared.db");
    const db = openSqlite({ file });
    await account(db, `sqlite:${file}`, undefined);
    await db.close();
    await rm(folder, { recursive: true, force: true });
  }, 240_000);
});
