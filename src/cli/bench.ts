import { type Budget, timeBudget } from "../base/async.js";
import { createDispatcher } from "../dispatch/dispatcher.js";
import { createInbox, type Inbox, type IncomingMessage } from "../inbox/inbox.js";
import { newOwnerToken } from "../queue/leases.js";
import type { Database } from "../sql/dialect.js";
import { statement } from "../sql/driver.js";
import { migrate } from "../sql/migrate.js";
import { type Command, exitCodes, flag, option, UsageError, type Values } from "./command.js";
import { withStores } from "./load-app.js";
import { createScratch, type ScratchDatabase } from "./scratch-database.js";
import {
  type Columns,
  count,
  print,
  seconds,
  storeOptions,
  tableLines,
  text,
  withProgress,
} from "./terminal.js";

const maxConcurrency = 1_000;
const maxPayloadBytes = 1_000_000;

export const benchCommand: Command = {
  name: "bench",
  summary: "measure this database in a schema of its own, which is dropped afterwards",
  usage: "bench [--yes | --schema NAME] [--seconds N] [--concurrency N,N] [--payload BYTES] [options]",
  options: {
    seconds: option("the seconds to measure; 20 by default. Making and dropping the tables comes on top"),
    concurrency: option("callers of receive and handlers of dispatch at a time; 1,8,32 by default"),
    payload: option("the bytes of a payload; 1000 by default"),
    yes: flag(
      "make a schema with a new name; SQLite uses a new file beside the database, and needs no --yes",
    ),
    ...storeOptions,
    schema: option("the name of the schema to make, which must not exist; instead of --yes"),
  },
  examples: [
    "oncebox bench --database sqlite:app.db",
    "oncebox bench --yes --seconds 60 --database postgres://app@localhost/orders",
    "oncebox bench --schema scratch --concurrency 1,16,64 --json --app dist/app.js",
  ],
  async run(input) {
    const { values, terminal } = input;
    const options = {
      ms: seconds(values, "seconds", 20),
      concurrencies: concurrenciesOf(values),
      payloadBytes: payloadOf(values),
      signal: terminal.signal,
    };
    return withStores(input, async (_, db) => {
      requireConsent(db, values);
      const scratch = await createScratch(db, text(values, "schema"));
      try {
        terminal.err(`Measuring in ${scratch.name}, which is dropped at the end.`);
        const measured = await withProgress(terminal, "measuring", () => measureInbox(scratch, options));
        const lines = tableLines(measurementColumns, measured, terminal.columns);
        print(input, { database: db.id, measured }, lines.join("\n"));
        return terminal.signal.aborted ? exitCodes.more : exitCodes.ok;
      } finally {
        // after an error and after Ctrl-C, too
        await scratch.drop().catch((error: Error) => {
          terminal.err(`Drop ${scratch.name} by hand: it could not be dropped.`);
          throw error;
        });
      }
    });
  },
};

const measurementColumns: Columns<Measurement> = {
  MEASURED: ({ name }) => name,
  CONCURRENCY: ({ concurrency }) => concurrency,
  "PER SECOND": ({ perSecond }) => Math.round(perSecond),
  "MEDIAN MS": ({ medianMs }) => medianMs?.toFixed(2) ?? null,
  "P95 MS": ({ p95Ms }) => p95Ms?.toFixed(2) ?? null,
  COUNT: ({ count }) => count,
};

function concurrenciesOf(values: Values): readonly number[] {
  const all = (text(values, "concurrency") ?? "1,8,32").split(",").map((part) => Number(part));
  if (all.some((one) => !Number.isInteger(one) || one < 1 || one > maxConcurrency))
    throw new UsageError(`--concurrency must be whole numbers from 1 to ${maxConcurrency}, with commas.`);
  return all;
}

function payloadOf(values: Values): number {
  const bytes = count(values, "payload") ?? 1_000;
  if (bytes > maxPayloadBytes) throw new UsageError(`--payload must be ${maxPayloadBytes} at most.`);
  return bytes;
}

/** A server has other users, who notice the load. */
function requireConsent({ id, dialect }: Database, values: Values): void {
  const isFile = dialect.name === "sqlite";
  if (isFile && values.schema !== undefined)
    throw new UsageError(
      "--schema is for PostgreSQL and SQL Server. On SQLite bench uses a file of its own.",
    );
  if (isFile || values.yes || values.schema !== undefined) return;
  throw new UsageError(
    `bench would make a schema in ${id}, keep the server busy, and drop the schema. Allow it with --yes, or name the schema with --schema NAME.`,
  );
}

/** What was measured of one kind of call. */
export interface Measurement {
  readonly name: string;
  /** Callers or handlers at a time; null where there is one at a time by nature. */
  readonly concurrency: number | null;
  /** Calls, or messages for a dispatcher. */
  readonly count: number;
  readonly perSecond: number;
  /** Of one call; null for a dispatcher, whose messages share their calls. */
  readonly medianMs: number | null;
  readonly p95Ms: number | null;
}

interface MeasureOptions {
  /** Of all measurements together, without making and dropping the tables. */
  readonly ms: number;
  /** Callers of receive, and handlers of a dispatcher. */
  readonly concurrencies: readonly number[];
  readonly payloadBytes: number;
  readonly signal: AbortSignal;
}

/** Shares of the time. Those of receive and dispatch are divided among the concurrencies. */
const shares = { roundTrip: 0.1, receive: 0.35, claim: 0.15, dispatch: 0.4 };

/** Messages of one claim, as a dispatcher claims them by default. */
const claimSize = 50;

/** Enough for several claims, and filled in a moment. */
const waiting = 500;

/** A dispatcher's run needs some time to begin, and on a slow database more than its share of a short measurement. */
const leastRunMs = 10_000;

/** Measures by the package's own calls, as a function makes them. After the signal it returns what it has. */
async function measureInbox(
  { db, schema }: ScratchDatabase,
  { ms, concurrencies, payloadBytes, signal }: MeasureOptions,
): Promise<readonly Measurement[]> {
  const tables = schema === undefined ? {} : { schema };
  await migrate(db, { ...tables, outbox: false });
  const inbox = createInbox(db, tables);
  const next = newMessages(payloadBytes);
  const part =
    (share: number, parts = 1) =>
    (): Budget =>
      timeBudget((ms * share) / parts, signal);
  const each = concurrencies.length;
  const ping = statement("ping", "select 1 as one");
  const found: Measurement[] = [];
  const add = async (measure: () => Promise<Measurement>): Promise<void> => {
    if (!signal.aborted) found.push(await measure());
  };
  await add(() => timed("round trip", null, part(shares.roundTrip), () => db.driver.query(ping, {})));
  for (const callers of concurrencies)
    await add(() => timed("receive", callers, part(shares.receive, each), () => inbox.receive(next())));
  await add(() => claims(inbox, part(shares.claim), next));
  for (const handlers of concurrencies)
    await add(() => dispatched(inbox, handlers, part(shares.dispatch, each), next));
  return found;
}

const topic = "bench";

function newMessages(payloadBytes: number): () => IncomingMessage {
  const payload = "x".repeat(payloadBytes);
  let number = 0;
  return () => ({ source: "bench", messageId: String(++number), topic, payload });
}

const isOver = ({ signal, remainingMs }: Budget): boolean => signal.aborted || remainingMs() <= 0;

/** Makes the same call one after the other, in as many rows as there are callers. The first ones connect and are not counted. */
async function timed(
  name: string,
  callers: number | null,
  start: () => Budget,
  call: () => Promise<unknown>,
): Promise<Measurement> {
  await Promise.all(Array.from({ length: callers ?? 1 }, call));
  const times: number[] = [];
  const budget = start();
  const repeat = async (): Promise<void> => {
    do {
      const began = performance.now();
      await call();
      times.push(performance.now() - began);
    } while (!isOver(budget));
  };
  const began = performance.now();
  await Promise.all(Array.from({ length: callers ?? 1 }, repeat));
  return measurement(name, callers, times, performance.now() - began);
}

const fill = (inbox: Inbox, next: () => IncomingMessage): Promise<unknown> =>
  inbox.enqueue(Array.from({ length: waiting }, next));

/** Only the claim is timed. The release keeps as many messages waiting as there were. */
async function claims(inbox: Inbox, start: () => Budget, next: () => IncomingMessage): Promise<Measurement> {
  await fill(inbox, next);
  const owner = newOwnerToken();
  const times: number[] = [];
  const budget = start();
  do {
    const began = performance.now();
    const claimed = await inbox.claim({ owner, batchSize: claimSize });
    times.push(performance.now() - began);
    await inbox.release(owner, claimed);
  } while (!isOver(budget));
  const elapsedMs = times.reduce((sum, time) => sum + time, 0);
  return measurement(`claim of ${claimSize}`, null, times, elapsedMs);
}

/** Drains again and again what was filled in, which is not timed. The handlers do nothing. */
async function dispatched(
  inbox: Inbox,
  concurrency: number,
  start: () => Budget,
  next: () => IncomingMessage,
): Promise<Measurement> {
  const dispatcher = createDispatcher({ handlers: { [topic]: () => undefined }, concurrency });
  let acked = 0;
  let elapsedMs = 0;
  await fill(inbox, next);
  const budget = start();
  do {
    const began = performance.now();
    const run = timeBudget(Math.max(leastRunMs, budget.remainingMs()), budget.signal);
    acked += (await dispatcher.run(inbox, run)).acked;
    elapsedMs += performance.now() - began;
    if (!isOver(budget)) await fill(inbox, next);
  } while (!isOver(budget));
  return { ...measurement("dispatch", concurrency, [], elapsedMs), ...rate(acked, elapsedMs) };
}

/** `elapsedMs` is that of all calls together, which ran beside each other where there were several callers. */
function measurement(
  name: string,
  concurrency: number | null,
  timesMs: readonly number[],
  elapsedMs: number,
): Measurement {
  const sorted = [...timesMs].sort((a, b) => a - b);
  const quantile = (share: number): number | null => {
    const value = sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
    return value === undefined ? null : rounded(value, 3);
  };
  return {
    name,
    concurrency,
    ...rate(timesMs.length, elapsedMs),
    medianMs: quantile(0.5),
    p95Ms: quantile(0.95),
  };
}

const rate = (count: number, elapsedMs: number) => ({
  count,
  perSecond: elapsedMs === 0 ? 0 : rounded((count / elapsedMs) * 1000, 1),
});

const rounded = (value: number, digits: number): number => Number(value.toFixed(digits));
