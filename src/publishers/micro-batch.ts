import { yieldToEventLoop } from "../base/async.js";
import { permanentFailure } from "../dispatch/settlement.js";

/** What became of one message of a batch. */
export type Sent = { readonly ok: true } | { readonly ok: false; readonly error: unknown };

export const sent: Sent = { ok: true };
export const notSent = (error: unknown): Sent => ({ ok: false, error });

interface MicroBatchOptions<Item> {
  readonly maxItems: number;
  readonly maxBytes: number;
  readonly bytesOf: (item: Item) => number;
  /**
   * Returns an outcome for each item, in order. When it rejects, no item was sent. The signal aborts when those of all
   * items have.
   */
  readonly send: (items: readonly Item[], signal: AbortSignal) => Promise<readonly Sent[]>;
}

interface Pending<Item> {
  readonly item: Item;
  readonly signal: AbortSignal;
  settle(outcome: Sent): void;
}

/**
 * Collects the calls of one tick of the event loop into as few requests as the limits allow, and settles each call by
 * itself. It works because a dispatcher starts the handlers of one claim in the same tick.
 */
export function microBatch<Item>(
  options: MicroBatchOptions<Item>,
): (item: Item, signal: AbortSignal) => Promise<void> {
  let pending: Pending<Item>[] = [];

  const sendBatch = async (batch: readonly Pending<Item>[]): Promise<void> => {
    const controller = new AbortController();
    const signals = batch.map(({ signal }) => signal);
    const abortAfterLast = (): void => {
      if (signals.every(({ aborted }) => aborted)) controller.abort(signals[0]!.reason);
    };
    abortAfterLast();
    for (const signal of signals) signal.addEventListener("abort", abortAfterLast);
    try {
      const items = batch.map(({ item }) => item);
      const outcomes = await options.send(items, controller.signal);
      for (const [index, entry] of batch.entries()) entry.settle(outcomes[index] ?? notSent(noOutcome));
    } catch (error) {
      for (const entry of batch) entry.settle(notSent(error));
    } finally {
      for (const signal of signals) signal.removeEventListener("abort", abortAfterLast);
    }
  };
  const flush = async (): Promise<void> => {
    await yieldToEventLoop();
    const collected = pending;
    pending = [];
    for (const batch of batchesOf(collected, options)) void sendBatch(batch);
  };

  return (item, signal) =>
    new Promise((resolve, reject) => {
      const settle = (outcome: Sent): void => (outcome.ok ? resolve() : reject(outcome.error));
      pending.push({ item, signal, settle });
      if (pending.length === 1) void flush();
    });
}

function batchesOf<Item>(
  entries: readonly Pending<Item>[],
  { maxItems, maxBytes, bytesOf }: MicroBatchOptions<Item>,
): Pending<Item>[][] {
  const batches: Pending<Item>[][] = [];
  let bytes = 0;
  for (const entry of entries) {
    const size = bytesOf(entry.item);
    const last = batches.at(-1);
    if (last === undefined || last.length === maxItems || bytes + size > maxBytes) {
      batches.push([entry]);
      bytes = size;
    } else {
      last.push(entry);
      bytes += size;
    }
  }
  return batches;
}

const noOutcome = new Error("The destination did not report whether it took the message.");

/**
 * Sends messages together. When the destination refuses the request for its content, sends each message by itself and in
 * order, so that only the message at fault fails, and for good.
 */
export async function sendOrSplit<Item>(
  items: readonly Item[],
  isContentFault: (error: unknown) => boolean,
  send: (items: readonly Item[]) => Promise<readonly Sent[]>,
): Promise<readonly Sent[]> {
  try {
    return await send(items);
  } catch (error) {
    if (!isContentFault(error)) throw error;
    if (items.length === 1)
      return [notSent(permanentFailure(`The destination refuses the message: ${(error as Error).name}.`))];
  }
  const outcomes: Sent[] = [];
  for (const item of items) {
    const [outcome] = await sendOrSplit([item], isContentFault, send).catch((error) => [notSent(error)]);
    outcomes.push(outcome!);
  }
  return outcomes;
}
