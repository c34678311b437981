import { expect } from "vitest";
import type { Step } from "../../proof/explore.js";
import type { Model } from "../../proof/promela.js";
import { emptyClaim } from "../../proof/walk.js";
import {
  createInbox,
  createOutbox,
  LeaseLostError,
  migrate,
  newOwnerToken,
  type OwnerToken,
  statement,
} from "../../src/index.js";
import type { QueueKind } from "../../src/queue/work-store.js";
import { status } from "../../src/sql/dialect.js";
import type { QueueNames } from "../../src/sql/names.js";
import { type CallerTransaction, type TestClock, type TestDatabase, testClock } from "../contract/harness.js";
import {
  type AnyMessage,
  type OperatedStore,
  operatedInbox,
  operatedOutbox,
} from "../contract/queue/support.js";
import { inSchemaOf, namesOf } from "../contract/support/database.js";

/** One tick of the model. */
const tickMs = 10_000;

/** A queue on tables of its own, to do what the model does. */
interface RealQueue {
  readonly database: TestDatabase;
  readonly names: QueueNames;
  readonly clock: TestClock;
  readonly store: OperatedStore;
  /** A table for what transactional handlers write. */
  readonly effects: string;
  enqueue(message: Content): Promise<unknown>;
  /** `outgoing` of an acknowledgement. */
  returned(message: Content): object;
  /** What each of the model's tokens stands for: a new one for every claim. */
  readonly tokens: OwnerToken[];
  /** The model's messages, as they were last claimed under each of its tokens. */
  readonly claimed: Map<string, AnyMessage>;
}

interface Content {
  readonly topic: string;
  readonly payload: string;
  readonly partitionKey: string | null;
}

let tables = 0;

export async function openRealQueue(
  database: TestDatabase,
  kind: QueueKind,
  { constants }: Model,
): Promise<RealQueue> {
  const { db } = database;
  const schema = inSchemaOf(database);
  const table = `${kind}_trace_${++tables}`;
  await migrate(db, { ...schema, inbox: false, outbox: false, [kind]: table });
  const effects = namesOf(database, kind, `${table}_effects`).message;
  await database.raw(`create table ${effects} (message int not null)`);
  const clock = testClock();
  const retry = { maxAttempts: constants.MAX!, baseMs: tickMs, factor: 1, maxMs: tickMs };
  const deadInPartition = constants.BLOCK === 1 ? "block" : "skip";
  const settings = { ...schema, table, clock, retry, deadInPartition } as const;
  const inbox = createInbox(db, settings);
  const outbox = createOutbox(db, settings);
  return {
    database,
    names: namesOf(database, kind, table),
    clock,
    store: kind === "inbox" ? operatedInbox(inbox) : operatedOutbox(outbox),
    effects,
    enqueue: (message) =>
      kind === "inbox"
        ? inbox.receive({ source: "s", messageId: message.payload, ...message })
        : outbox.enqueue(message),
    returned: (message) => outbox.prepare(message),
    tokens: [],
    claimed: new Map(),
  };
}

/**
 * Does on the database what the model has just done, and compares what both say of it. `owners` are the model's from before. What
 * one call of the store does in several steps of the model, the model does here, too.
 */
export async function play(
  real: RealQueue,
  model: Model,
  { action, args }: Step,
  owners: Uint8Array,
): Promise<void> {
  const { store, clock } = real;
  const [first = 0, m = 0] = args;
  switch (action) {
    case "tick":
      return clock.advance(tickMs);
    case "enqueue":
      await real.enqueue(contentOf(first, model.variables.count![0]! - 1));
      return;
    case "claim":
      return claim(real, model, args);
    case emptyClaim.action:
      expect(await store.claim({ owner: newOwnerToken(), leaseMs: leaseMsOf(model) })).toEqual([]);
      return;
    case "crash":
      return;
    case "reap":
      return reap(real, model, first);
    case "replay":
      expect((await store.replay([(await messageOf(real, first))!])).changed).toHaveLength(1);
      return;
    case "pause":
      await store.pause("all", { by: "the model" });
      return;
    case "resume":
      await store.resume("all", { by: "the model" });
      return;
    default: {
      const changed = await settle(real, model, action, args);
      const stays = model.variables.holds![(first - 1) * model.constants.N! + m] === 1;
      expect(changed, `whether ${action} changed the row`).toBe(
        action === "renew" ? stays : owners[m] === first,
      );
    }
  }
}

const contentOf = (key: number, m: number): Content => ({
  topic: "t",
  payload: `${m}`,
  partitionKey: key === 0 ? null : `key ${key}`,
});
const leaseMsOf = ({ constants }: Model): number => constants.LEASE! * tickMs;
const heldAt = (t: number, m: number): string => `${t} ${m}`;

async function messageOf({ store }: RealQueue, m: number): Promise<AnyMessage | undefined> {
  return (await store.list({ limit: 1_000 })).messages[m];
}

/** The store claims again when all that it found died. */
async function claim(real: RealQueue, model: Model, args: readonly number[]): Promise<void> {
  const [t, batchSize] = args as [number, number];
  const { N } = model.constants;
  const { holds } = model.variables;
  const held = () => Array.from({ length: N! }, (_, m) => m).filter((m) => holds![(t - 1) * N! + m] === 1);
  while (held().length === 0 && model.act("claim", args));
  const owner = newOwnerToken();
  const other = args[2] === model.constants.NONE ? undefined : await lockRow(real, args[2]!);
  const messages = await real.store.claim({ owner, leaseMs: leaseMsOf(model), batchSize });
  await other?.rollback();
  expect(
    messages.map(({ payload }) => Number(payload)),
    "what was claimed",
  ).toEqual(held());
  real.tokens[t] = owner;
  for (const message of messages) real.claimed.set(heldAt(t, Number(message.payload)), message);
}

/** Another transaction that has locked the message's row, if there is one. */
async function lockRow(real: RealQueue, m: number): Promise<CallerTransaction | undefined> {
  const { database, names } = real;
  const seq = (await messageOf(real, m))?.seq;
  if (seq === undefined) return undefined;
  const other = await database.begin();
  const isSqlServer = database.db.dialect.name === "sqlserver";
  const [hint, lock] = isSqlServer ? ["with (updlock, rowlock)", ""] : ["", "for update"];
  await other.run(`select seq from ${names.state} ${hint} where seq = ${seq} ${lock}`);
  return other;
}

/** The reaper takes all that it finds. */
async function reap({ store }: RealQueue, model: Model, first: number): Promise<void> {
  const others = Array.from({ length: model.constants.N! }, (_, m) => m).filter((m) =>
    model.act("reap", [m]),
  );
  const reaped = [first, ...others];
  const dead = reaped.filter((m) => model.variables.status![m] === model.constants.DEAD).length;
  expect(await store.reapExpired()).toMatchObject({ reaped: reaped.length, dead });
}

/** Whether it changed the message. The handlers of every second message are transactional. */
async function settle(
  real: RealQueue,
  model: Model,
  action: string,
  args: readonly number[],
): Promise<boolean> {
  const { store } = real;
  const [t, m, , k] = args as [number, number, number?, number?];
  const owner = real.tokens[t]!;
  const message = real.claimed.get(heldAt(t, m))!;
  const changes = async (call: Promise<{ readonly changed: readonly unknown[] }>) =>
    (await call).changed.length > 0;
  switch (action) {
    case "abandon":
      return changes(store.abandon(owner, [message], { error: "failed" }));
    case "fail":
      return changes(store.fail(owner, [message], "failed for good"));
    case "release":
      return changes(store.release(owner, [message]));
    case "renew":
      return changes(store.renew(owner, [message], leaseMsOf(model)));
    case "ack": {
      // its number is that of the newest message, if it was stored
      const content = contentOf(k!, model.variables.count![0]! - 1);
      const done = k === model.constants.NONE ? message : { message, outgoing: real.returned(content) };
      return m % 2 === 0 ? ackInTransaction(real, owner, m, done) : changes(store.ack(owner, [done]));
    }
    default:
      throw new Error(`Nobody knows how a queue does ${action}.`);
  }
}

/** As the dispatcher does it around a transactional handler. */
async function ackInTransaction(
  { store, effects }: RealQueue,
  owner: OwnerToken,
  m: number,
  done: object,
): Promise<boolean> {
  try {
    await store.transaction(async (tx) => {
      await tx.query(
        statement(`effect ${effects} ${m}`, `insert into ${effects} (message) values (${m})`),
        {},
      );
      const { lost } = await store.ack(owner, [done], { tx });
      if (lost.length > 0) throw new LeaseLostError();
    });
    return true;
  } catch (error) {
    if (error instanceof LeaseLostError) return false;
    throw error;
  }
}

/** A message as the model and the database describe it. Times are in ticks from now, and -1 is past. */
interface Described {
  readonly status: string;
  readonly attempt: number;
  readonly crashes: number | null;
  readonly owner: string | null;
  readonly lockedUntil: number | null;
  /** Until a claim may take it. */
  readonly wait: number | null;
  /** In the order of claims. */
  readonly place: number | null;
  /** In its partition queue. */
  readonly position: number;
  readonly effects: number;
}

/** Compares all rows with the model's state. */
export async function compare(real: RealQueue, model: Model): Promise<void> {
  const stored = await describeStored(real);
  const isMoving = await hasPartitionChanges(real);
  const expected = describeModel(real, model);
  expect(stored.map((message) => (isMoving ? withoutPosition(message) : message))).toEqual(
    expected.map((message) => (isMoving ? withoutPosition(message) : message)),
  );
}

/** SQL Server notes what joins and leaves partition queues, and the next claim applies it. */
const withoutPosition = ({ position, ...message }: Described) => ({
  ...message,
  status: message.status === "blocked" ? "ready" : message.status,
});

async function hasPartitionChanges({ database, names }: RealQueue): Promise<boolean> {
  if (database.db.dialect.name !== "sqlserver") return false;
  return (await database.raw(`select top (1) seq from ${names.object("PartitionChanges")}`)).length > 0;
}

function describeModel({ tokens }: RealQueue, { variables, constants }: Model): readonly Described[] {
  const words = new Map([
    [constants.READY, "ready"],
    [constants.BLOCKED, "blocked"],
    [constants.DEAD, "dead"],
    [constants.DONE, "done"],
  ]);
  return Array.from({ length: variables.count![0]! }, (_, m) => {
    const of = (name: string): number => variables[name]![m]!;
    const word = words.get(of("status"))!;
    const isLive = word === "ready" || word === "blocked";
    return {
      status: word,
      attempt: of("attempt"),
      crashes: word === "done" ? null : of("crashes"),
      owner: of("owner") === 0 ? null : tokens[of("owner")]!,
      lockedUntil: of("owner") === 0 ? null : of("lease") - 1,
      wait: isLive ? Math.max(of("again"), of("due") - 1, 0) : null,
      place: isLive ? of("place") : null,
      position: of("position"),
      effects: m % 2 === 0 ? of("effects") : 0,
    };
  });
}

async function describeStored({
  database,
  names,
  clock,
  store,
  effects,
}: RealQueue): Promise<readonly Described[]> {
  const queueTable = names.object(
    database.db.dialect.name === "postgres" ? "_partition_queue" : "PartitionQueue",
  );
  const { messages } = await store.list({ limit: 1_000 });
  const rows = await database.raw(`select seq, status, crashes from ${names.state} order by visible_at, seq`);
  const queue = await database.raw(`select seq, partition_key from ${queueTable} order by position`);
  const written = await database.raw(`select message from ${effects}`);
  const bySeq = new Map(rows.map((row) => [Number(row.seq), row]));
  const live = rows.filter((row) => isLive(Number(row.status))).map(({ seq }) => Number(seq));
  const ticks = (time: Date): number => Math.max(-1, (time.getTime() - clock().getTime()) / tickMs);
  return messages.map(({ seq, attempt, owner, lockedUntil, nextAttemptAt }, m) => {
    const row = bySeq.get(seq);
    const own = queue.find((entry) => Number(entry.seq) === seq);
    const ofKey = queue.filter((entry) => entry.partition_key === own?.partition_key);
    const waits = row !== undefined && isLive(Number(row.status));
    return {
      status: wordOf(row === undefined ? status.done : Number(row.status)),
      attempt,
      crashes: row === undefined ? null : Number(row.crashes),
      owner,
      lockedUntil: lockedUntil === null ? null : ticks(lockedUntil),
      wait: waits ? Math.max(0, ticks(nextAttemptAt)) : null,
      place: waits ? live.indexOf(seq) : null,
      position: own === undefined ? 0 : ofKey.indexOf(own) + 1,
      effects: written.filter(({ message }) => Number(message) === m).length,
    };
  });
}

const isLive = (value: number): boolean => value === status.ready || value === status.blocked;
const wordOf = (value: number): string => Object.entries(status).find(([, one]) => one === value)![0];
