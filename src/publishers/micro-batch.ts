import { setImmediate as yieldToEventLoop } from "node:timers/promises";

/** What became of one message of a batch. */
export type Sent = { readonly ok: true } | { readonly ok: false; readonly error: unknown };

export const sent: Sent = { ok: true };
export const notSent = (error: unknown): Sent => ({ ok: false, error });

export interface MicroBatchOptions<Item> {
  readonly maxItems: number;
  readonly maxBytes: number;
  readonly bytesOf: (item: Item) => number;
  /** Answers for each item, in order. When it rejects, none was sent. */
  readonly send: (items: readonly Item[]) => Promise<readonly Sent[]>;
}

interface Waiting<Item> {
  readonly item: Item;
  settle(outcome: Sent): void;
}

/**
 * Collects the calls of one turn of the event loop into as few requests as their limits allow, and settles each call
 * by itself: a dispatcher starts the handlers of a claim in one turn.
 */
export function microBatch<Item>(options: MicroBatchOptions<Item>): (item: Item) => Promise<void> {
  const { maxItems, maxBytes, bytesOf, send } = options;
  let waiting: Waiting<Item>[] = [];

  const sendAll = async (batch: readonly Waiting<Item>[]): Promise<void> => {
    try {
      const outcomes = await send(batch.map(({ item }) => item));
      for (const [index, entry] of batch.entries()) entry.settle(outcomes[index] ?? notSent(unanswered));
    } catch (error) {
      for (const entry of batch) entry.settle(notSent(error));
    }
  };
  const flush = async (): Promise<void> => {
    await yieldToEventLoop();
    const all = waiting;
    waiting = [];
    for (const batch of split(all)) void sendAll(batch);
  };
  const split = (all: readonly Waiting<Item>[]): Waiting<Item>[][] => {
    const batches: Waiting<Item>[][] = [];
    let bytes = 0;
    for (const entry of all) {
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
  };

  return (item) =>
    new Promise((resolve, reject) => {
      const settle = (outcome: Sent): void => (outcome.ok ? resolve() : reject(outcome.error));
      waiting.push({ item, settle });
      if (waiting.length === 1) void flush();
    });
}

const unanswered = new Error("The destination did not say what became of the message.");
