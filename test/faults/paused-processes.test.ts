import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { sleep } from "../../src/base/async.js";
import { createInbox, type Inbox, migrate } from "../../src/index.js";
import { operatorsOf } from "../../src/operators/operators-of.js";
import type { TestDatabase } from "../contract/harness.js";
import { type BundledChild, bundleChild } from "../support/bundled-child.js";
import { postgresHarness } from "../support/postgres-harness.js";
import { times } from "../support/times.js";
import { databaseTime } from "./database-time.js";

const perPhase = times(100);
const processes = 4;
const by = { by: "alice" };
const url = inject("postgresUrl");

interface Claim {
  readonly from: number;
  readonly to: number;
  readonly pid: string;
  readonly topics: readonly string[];
}

describe(`pause and limit across ${processes} processes, with ${perPhase} messages of each topic at a time`, () => {
  let command: BundledChild;
  let database: TestDatabase;
  let inbox: Inbox;
  let folder: string;
  let logFile: string;
  const children: ChildProcess[] = [];
  let enqueued = 0;

  beforeAll(async () => {
    command = await bundleChild(fileURLToPath(new URL("./pause-child.ts", import.meta.url)));
    database = await postgresHarness(url).open();
    await migrate(database.db, { schema: database.schema! });
    inbox = createInbox(database.db, { schema: database.schema! });
    folder = await mkdtemp(join(tmpdir(), "oncebox-pause-"));
    logFile = join(folder, "claims.log");
    await writeFile(logFile, "");
    for (let i = 0; i < processes; i++) {
      const args = ["--no-warnings", command.path, url, database.schema!, logFile];
      children.push(spawn(process.execPath, args, { stdio: ["pipe", "ignore", "inherit"] }));
    }
  });
  afterAll(async () => {
    const alive = children.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
    const ended = alive.map((child) => once(child, "exit"));
    for (const child of alive) child.kill("SIGKILL");
    await Promise.all(ended);
    await command?.remove();
    await database?.close();
    await rm(folder, { recursive: true, force: true });
  });

  const enqueue = async (): Promise<void> => {
    const ids = Array.from({ length: perPhase }, () => String(++enqueued));
    const message = (topic: string) => (id: string) => ({
      source: "s",
      messageId: `${topic}-${id}`,
      topic,
      payload: "x",
    });
    await inbox.enqueue([...ids.map(message("mail")), ...ids.map(message("other"))]);
  };
  const lines = async () => (await readFile(logFile, "utf8")).split("\n").filter((line) => line !== "");
  /** The claims that began after one time and ended before another. */
  const claimsIn = async (from: number, to = Number.POSITIVE_INFINITY): Promise<readonly Claim[]> =>
    (await lines())
      .map((line) => line.split(" "))
      .filter(([word]) => word === "claim")
      .map(([, start, end, pid, ...topics]) => ({ from: Number(start), to: Number(end), pid: pid!, topics }))
      .filter((claim) => claim.from > from && claim.to < to);
  const mailIn = (claims: readonly Claim[]) =>
    claims.flatMap(({ topics }) => topics).filter((topic) => topic === "mail");
  const until = async (condition: () => Promise<boolean>): Promise<void> => {
    while (!(await condition())) await sleep(50);
  };
  /** Each process has claimed several times since then. */
  const allHaveClaimed = async (since: number): Promise<boolean> => {
    const counts = new Map<string, number>();
    for (const { pid } of await claimsIn(since)) counts.set(pid, (counts.get(pid) ?? 0) + 1);
    return counts.size === processes && [...counts.values()].every((count) => count >= 3);
  };

  it("ADD-17 a pause holds in every process from its next claim on, and a limit for all of them together", async () => {
    await enqueue();
    await until(() => allHaveClaimed(0));

    await operatorsOf(inbox).pause({ topic: "mail" }, by);
    const pausedAt = await databaseTime(database.db);
    await enqueue();
    await until(() => allHaveClaimed(pausedAt));
    await until(async () => (await inbox.stats()).due === 0);
    const resumeFrom = await databaseTime(database.db);
    const whilePaused = await claimsIn(pausedAt, resumeFrom);
    expect(mailIn(whilePaused)).toEqual([]);
    expect(whilePaused.flatMap(({ topics }) => topics)).toContain("other");
    expect((await inbox.stats()).phases.paused).toBeGreaterThanOrEqual(perPhase);

    const perSecond = 50;
    await operatorsOf(inbox).limit({ topic: "mail", perSecond }, by);
    const limitedAt = await databaseTime(database.db);
    await operatorsOf(inbox).resume({ topic: "mail" }, by);
    await until(async () => mailIn(await claimsIn(limitedAt)).length >= perPhase / 2);
    const limitedTo = await databaseTime(database.db);
    const passed = mailIn(await claimsIn(limitedAt, limitedTo)).length;
    expect(passed).toBeLessThanOrEqual(perSecond + (perSecond * (limitedTo - limitedAt)) / 1000);

    await operatorsOf(inbox).limit({ topic: "mail", perSecond: null }, by);
    await until(async () => (await inbox.stats()).counts.Processing === 0);
    expect(await operatorsOf(inbox).controls()).toEqual([]);
    for (const child of children) child.stdin!.end();
    await Promise.all(children.map((child) => child.exitCode ?? once(child, "exit")));

    const handled = (await lines())
      .filter((line) => line.startsWith("handled"))
      .map((line) => line.split(" ")[1]);
    expect(handled).toHaveLength(4 * perPhase);
    expect(new Set(handled).size).toBe(4 * perPhase);
    expect((await inbox.stats()).counts).toEqual({ Seen: 0, Processing: 0, Done: 4 * perPhase, Dead: 0 });
    const { messages } = await inbox.list({ state: "Done", limit: 1_000 });
    expect(messages.every(({ attempt }) => attempt === 0)).toBe(true);
  });
});
