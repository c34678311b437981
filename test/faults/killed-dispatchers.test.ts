import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, inject, it } from "vitest";
import { createInbox, type Database, migrate } from "../../src/index.js";
import type { KillableHarness } from "../contract/harness.js";
import { postgresHarness } from "../support/postgres-harness.js";
import { sqliteHarness } from "../support/sqlite-harness.js";
import { times } from "../support/times.js";

const messages = times(2_500);
const kills = messages >= 10_000 ? 12 : 4;
const postgresUrl = inject("postgresUrl");
const harnesses: readonly KillableHarness[] = [
  { ...postgresHarness(postgresUrl), urlOf: () => postgresUrl },
  { ...sqliteHarness("file"), urlOf: ({ db }) => db.id.slice("sqlite:".length) },
];

describe.each(harnesses)("dispatcher processes killed at random on $name", (harness) => {
  const drain = async (plan: Pick<KillPlan, "messages" | "processes" | "kills" | "keys">) => {
    const database = await harness.open();
    const { db, schema } = database;
    await drainDespiteKills({ db, url: harness.urlOf(database), schema, ...plan });
    await database.close();
  };

  it("IBX-105 FUN-05 ADD-11 four of them drain thousands of messages: none is lost, and every repetition follows a kill", async () => {
    await drain({ messages, processes: 4, kills });
  }, 240_000);

  it("FUN-05 ADD-01 three of them drain 40 partition keys, each in order and one message at a time", async () => {
    await drain({ messages: 2_000, processes: 3, kills: 3, keys: 40 });
  }, 240_000);
});

const child = fileURLToPath(new URL("./dispatch-child.ts", import.meta.url));

interface KillPlan {
  readonly db: Database;
  /** What the child opens: a URL or a file. */
  readonly url: string;
  readonly schema: string | undefined;
  readonly messages: number;
  readonly processes: number;
  readonly kills: number;
  /** Partition keys that the messages share; none by default. */
  readonly keys?: number;
}

interface Run {
  readonly word: string;
  readonly seq: number;
  readonly pid: number;
}

/** Drains an inbox by processes that are killed at random and started again, and accounts for every handler run. */
async function drainDespiteKills(plan: KillPlan): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-kill-"));
  const logFile = join(folder, "runs.log");
  const schema = plan.schema === undefined ? {} : { schema: plan.schema };
  await migrate(plan.db, schema);
  const inbox = createInbox(plan.db, schema);
  for (let from = 0; from < plan.messages; from += 1_000) {
    const size = Math.min(1_000, plan.messages - from);
    await inbox.enqueue(
      Array.from({ length: size }, (_, i) => ({
        source: "s",
        messageId: String(from + i),
        topic: "work",
        payload: "x",
        partitionKey: plan.keys === undefined ? null : String((from + i) % plan.keys),
      })),
    );
  }

  const killed = new Set<number>();
  const running = new Set<ChildProcess>();
  const start = (): void => {
    const args = ["--no-warnings", "--import", "tsx", child, plan.url, plan.schema ?? "", logFile];
    const process_ = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
    running.add(process_);
    process_.once("exit", () => running.delete(process_));
  };
  const pending = async () => {
    const { counts } = await inbox.stats();
    return counts.Processing + counts.Seen;
  };
  const killOne = (): void => {
    const victim = [...running][Math.floor(Math.random() * running.size)];
    if (victim?.pid === undefined) return;
    killed.add(victim.pid);
    victim.kill("SIGKILL");
  };

  try {
    for (;;) {
      while (running.size < plan.processes) start();
      await new Promise((resolve) => setTimeout(resolve, 300 + Math.random() * 700)); // only the rhythm of the kills: nothing is asserted on it
      const left = await pending();
      if (left === 0) break;
      if (killed.size < plan.kills) killOne();
    }
  } finally {
    const ended = [...running].map((one) => new Promise((resolve) => one.once("exit", resolve)));
    for (const one of running) one.kill("SIGKILL");
    await Promise.all(ended);
  }

  const { counts } = await inbox.stats();
  expect(counts.Done + counts.Dead).toBe(plan.messages);
  expect(counts.Dead).toBe(0);
  expect(killed.size).toBeGreaterThan(0);
  const log = await readLog(logFile);
  account(log, killed, plan.messages);
  if (plan.keys !== undefined) accountForOrder(log, killed, plan.keys);
  await rm(folder, { recursive: true, force: true });
}

async function readLog(file: string): Promise<readonly Run[]> {
  return (await readFile(file, "utf8"))
    .trim()
    .split("\n")
    .map((line) => line.split(" "))
    .map(([word, seq, pid]) => ({ word: word!, seq: Number(seq), pid: Number(pid) }));
}

/** Every message was handled; every run beyond a message's first follows one whose process was killed. */
function account(log: readonly Run[], killed: ReadonlySet<number>, messages: number): void {
  const starts = new Map<number, Run[]>();
  for (const run of log.filter((one) => one.word === "start"))
    starts.set(run.seq, [...(starts.get(run.seq) ?? []), run]);
  expect(starts.size).toBe(messages);
  const unexplained = [...starts.values()]
    .flatMap((runs) => runs.slice(0, -1))
    .filter((run) => !killed.has(run.pid));
  expect(unexplained).toEqual([]);

  const acks = log.filter((run) => run.word === "acked");
  expect(new Set(acks.map((run) => run.seq)).size).toBe(acks.length);
}

/** Within a key one starts when those before it have ended, and again only when its process was killed. */
function accountForOrder(log: readonly Run[], killed: ReadonlySet<number>, keys: number): void {
  const first = Math.min(...log.map((run) => run.seq));
  const ended = new Set<number>();
  const lastStart = new Map<number, Run>();
  for (const run of log) {
    if (run.word === "end") ended.add(run.seq);
    if (run.word !== "start") continue;
    const before = run.seq - keys;
    if (before >= first) expect(ended, `message ${run.seq} before ${before} had ended`).toContain(before);
    const key = (run.seq - first) % keys;
    const last = lastStart.get(key);
    if (last !== undefined && !ended.has(last.seq)) {
      expect(run.seq).toBe(last.seq);
      expect(killed).toContain(last.pid);
    }
    lastStart.set(key, run);
  }
}
