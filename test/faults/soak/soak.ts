import { readdirSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createInbox, type Inbox, type InboxMessage, migrate } from "../../../src/index.js";
import type { TestDatabase } from "../../contract/harness.js";
import { bundleChild } from "../../support/bundled-child.js";
import { slowSettlements } from "./check-soak.js";
import { keyOf, type SoakTopic, soakMessages } from "./messages.js";
import type { SoakMessage, SoakRun, Stall } from "./records.js";
import { clock, readRecords, type SoakRecord } from "./records.js";
import type { SoakChildOptions } from "./soak-child.js";
import { type Fleet, startFleet } from "./worker-fleet.js";

export interface SoakPlan {
  readonly database: TestDatabase;
  /** What the processes open: a URL or a file. */
  readonly url: string;
  /**
   * How long messages come in and processes are killed and stopped: at least so long, and until each kind of fault has
   * come, which a busy machine may need longer for. Afterwards the queue is drained.
   */
  readonly ms: number;
  readonly leaseMs: number;
  /** Before a message that ends its process is dead. */
  readonly maxAttempts: number;
  /** Shared with whoever delays settlements in this process. */
  readonly faults: FaultPhase;
}

export interface FaultPhase {
  isOver: boolean;
}

export interface SoakResult {
  readonly run: SoakRun;
  readonly faults: Fleet["counts"];
}

const processes = 4;
const messagesAtOnce = 6;
const betweenMessagesMs = 100;
const betweenProbesMs = 50;
const longestDrainMs = 480_000;
/** No more come in while so many wait: a busy machine would never drain them. */
const maxWaiting = 300;
const longestWaitForFaultsMs = 180_000;
/** A write that takes longer is noted. */
const stallMs = 150;

const child = fileURLToPath(new URL("./soak-child.ts", import.meta.url));

/** Four worker processes on one inbox, killed, stopped and restarted while messages come in. */
export async function soak(plan: SoakPlan): Promise<SoakResult> {
  const { database, leaseMs } = plan;
  const named = database.schema === undefined ? {} : { schema: database.schema };
  await migrate(database.db, { ...named, outbox: false });
  await database.raw(`create table ${tableOf(database, "effects")} (message_id varchar(20) not null)`);
  await database.raw(`create table ${tableOf(database, "probe")} (n integer not null)`);
  await database.raw(`insert into ${tableOf(database, "probe")} (n) values (0)`);
  const inbox = createInbox(database.db, named);
  const folder = await mkdtemp(join(tmpdir(), "oncebox-soak-"));
  const bundled = await bundleChild(child);
  const recordsOf = (id: string) => join(folder, `${id}.jsonl`);
  const over = join(folder, "over");
  const fleet = startFleet(processes, (id) => {
    const { url, maxAttempts } = plan;
    const { schema } = database;
    const options: SoakChildOptions = { url, schema, records: recordsOf(id), leaseMs, maxAttempts, over };
    return ["--no-warnings", bundled.path, JSON.stringify(options)];
  });
  const stalls: Stall[] = [];
  let isDrained = false;
  const watch = watchDatabase(plan, stalls, () => isDrained);
  try {
    await Promise.all([
      fillInbox(inbox, 0, plan),
      fillInbox(inbox, 1, plan),
      causeFaults(fleet, plan),
      endFaults(plan, () => {
        const { kills, stops, poisoned } = fleet.counts;
        return Math.min(kills, stops, poisoned) > 0 && slowSettlements(recordsIn(folder), leaseMs) > 0;
      }).then(() => writeFile(over, "")),
    ]);
    await untilDrained(inbox);
  } finally {
    isDrained = true;
    await fleet.close();
    await watch;
    await bundled.remove();
  }
  const ended = (await fleet.close()).map((one) => ({ ...one, records: readRecords(recordsOf(one.id)) }));
  const messages = await messagesOf(inbox, database);
  await rm(folder, { recursive: true, force: true });
  return { run: { leaseMs, messages, processes: ended, stalls }, faults: fleet.counts };
}

const tableOf = ({ schema }: TestDatabase, name: string) =>
  schema === undefined ? name : `${schema}.${name}`;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Enqueues at a steady pace. A partition queue that a stopped process has locked holds up messages with a key, and no others. */
async function fillInbox(inbox: Inbox, first: number, { faults, leaseMs }: SoakPlan): Promise<void> {
  for (let from = first; !faults.isOver; from += 2 * messagesAtOnce) {
    await inbox.enqueue(soakMessages(from, messagesAtOnce, leaseMs));
    while (!faults.isOver && (await inbox.stats()).counts.Processing > maxWaiting) await pause(500);
    await pause(betweenMessagesMs);
  }
}

/** Notes when a small write to a table of its own takes long: then the database, or the machine, serves nobody. */
async function watchDatabase(
  { database }: SoakPlan,
  stalls: Stall[],
  isDrained: () => boolean,
): Promise<void> {
  let seenAt = clock();
  while (!isDrained()) {
    await database.raw(`update ${tableOf(database, "probe")} set n = n + 1`);
    await pause(betweenProbesMs);
    const now = clock();
    if (now - seenAt > betweenProbesMs + stallMs) stalls.push({ from: seenAt, to: now });
    seenAt = now;
  }
}

/** Kills and stops processes, in no regular rhythm. */
async function causeFaults(fleet: Fleet, { faults, leaseMs }: SoakPlan): Promise<void> {
  for (let count = 0; !faults.isOver; count++) {
    await pause(leaseMs * (0.4 + 0.6 * Math.random()));
    if (count % 3 === 0) fleet.kill();
    else fleet.stop(leaseMs * (1.2 + Math.random()));
  }
}

async function endFaults({ faults, ms }: SoakPlan, haveCome: () => boolean): Promise<void> {
  await pause(ms);
  const giveUpAt = clock() + longestWaitForFaultsMs;
  while (!haveCome() && clock() < giveUpAt) await pause(500);
  faults.isOver = true;
}

const recordsIn = (folder: string): readonly SoakRecord[] =>
  readdirSync(folder).flatMap((name) => readRecords(join(folder, name)));

async function untilDrained(inbox: Inbox): Promise<void> {
  const giveUpAt = clock() + longestDrainMs;
  while (clock() < giveUpAt && (await inbox.stats()).counts.Processing > 0) await pause(200);
}

async function messagesOf(inbox: Inbox, database: TestDatabase): Promise<readonly SoakMessage[]> {
  const effects = new Map<string, number>();
  for (const row of await database.raw(
    `select message_id, count(*) as n from ${tableOf(database, "effects")} group by message_id`,
  ))
    effects.set(String(row.message_id), Number(row.n));
  const sinceEpochMs = Date.now() - clock();
  const messages: SoakMessage[] = [];
  for (let after: number | undefined; ; ) {
    const page = await inbox.list({ limit: 1_000, after });
    messages.push(...page.messages.map((message) => soakMessage(message, effects, sinceEpochMs)));
    if (page.cursor === null) return messages;
    after = page.cursor;
  }
}

function soakMessage(
  { seq, messageId, topic, state, processedAt, processedBy }: InboxMessage,
  effects: ReadonlyMap<string, number>,
  sinceEpochMs: number,
): SoakMessage {
  const index = Number(messageId);
  return {
    seq,
    index,
    key: keyOf(index),
    topic: topic as SoakTopic,
    state,
    doneAt: processedAt === null ? null : processedAt.getTime() - sinceEpochMs,
    doneBy: processedBy,
    effects: effects.get(messageId) ?? 0,
  };
}
