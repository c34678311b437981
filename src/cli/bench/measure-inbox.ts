import { type Budget, timeBudget } from "../../base/budget.js";
import { createDispatcher } from "../../dispatch/dispatcher.js";
import { createInbox, type Inbox, type IncomingMessage } from "../../inbox/inbox.js";
import { newOwnerToken } from "../../queue/owner-token.js";
import { statement } from "../../sql/driver.js";
import { migrate } from "../../sql/migrate.js";
import type { ScratchDatabase } from "./scratch-database.js";
import { type Measurement, rateOf, summarise } from "./summarise.js";

export interface MeasureOptions {
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

/** A run that handled nothing was too short for a slow database. The next one gets twice the time, up to the longest. */
const runMs = { shortest: 1_000, longest: 64_000 };

/** Measures by the package's own calls, as a function makes them. After the signal it returns what it has. */
export async function measureInbox(
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
  const ping = statement("ping", "select 1 as answer");
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
  return summarise(name, callers, times, performance.now() - began);
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
  return summarise(`claim of ${claimSize}`, null, times, elapsedMs);
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
  let leastMs = runMs.shortest;
  let isTooSlow = false;
  await fill(inbox, next);
  const budget = start();
  do {
    const began = performance.now();
    const run = timeBudget(Math.max(leastMs, budget.remainingMs()), budget.signal);
    acked += (await dispatcher.run(inbox, run)).acked;
    elapsedMs += performance.now() - began;
    if (acked === 0) leastMs *= 2;
    isTooSlow = acked === 0 && leastMs <= runMs.longest && !budget.signal.aborted;
    if (!isOver(budget)) await fill(inbox, next);
  } while (isTooSlow || !isOver(budget));
  return rateOf("dispatch", concurrency, acked, elapsedMs);
}
