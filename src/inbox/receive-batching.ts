import { abortable } from "../base/async.js";

interface ReceiveBatchingOptions<Item, Result> {
  readonly receiveOne: (item: Item, signal: AbortSignal | undefined) => Promise<Result>;
  /**
   * Receives several items in one round trip, all or none of them. No two have the same key. The results are in the
   * items' order. The signal is aborted when every caller has given up.
   */
  readonly receiveBatch: (
    items: readonly Item[],
    signal: AbortSignal | undefined,
  ) => Promise<readonly Result[]>;
  readonly keyOf: (item: Item) => string;
  readonly sizeOf: (item: Item) => number;
  /** Whether the database could not be reached or is busy. Then it is useless to retry the items one by one. */
  readonly isOutage: (error: unknown) => boolean;
}

interface PendingCall<Item, Result> {
  readonly item: Item;
  readonly key: string;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/** Requests to the database at once. More would take connections from other work and commit more often. */
const maxRequests = 4;
/** Limits of one batch, so that its request stays short. */
const maxItems = 100;
const maxSize = 1_000_000;

/**
 * Turns single receives, as webhooks make them, into batches when there are many. The first few calls are sent at once.
 * Calls that arrive while those run are sent together as soon as one of them has ended. So no call waits for a batch to
 * fill, and a burst costs the database one commit for each batch instead of one for each call.
 */
export function receiveBatching<Item, Result>(
  options: ReceiveBatchingOptions<Item, Result>,
): (item: Item, signal: AbortSignal | undefined) => Promise<Result> {
  const { receiveOne, receiveBatch, keyOf, isOutage } = options;
  let pending: PendingCall<Item, Result>[] = [];
  let requests = 0;

  const sendEach = async (calls: readonly PendingCall<Item, Result>[]): Promise<void> => {
    for (const [index, { item, signal, resolve, reject }] of calls.entries()) {
      try {
        resolve(await receiveOne(item, signal));
      } catch (error) {
        reject(error);
        if (!signal?.aborted && isOutage(error)) return rejectAll(calls.slice(index + 1), error);
      }
    }
  };

  const sendBatch = async (batch: readonly PendingCall<Item, Result>[]): Promise<void> => {
    if (batch.length === 1) return sendEach(batch);
    const { signal, stop } = abortedByAll(batch.map((call) => call.signal));
    try {
      const results = await receiveBatch(
        batch.map(({ item }) => item),
        signal,
      );
      for (const [index, { resolve }] of batch.entries()) resolve(results[index]!);
    } catch (error) {
      // No item of the batch was stored. Retried one by one, a bad item fails only its own call.
      if (signal?.aborted || isOutage(error)) rejectAll(batch, error);
      else await sendEach(batch);
    } finally {
      stop();
    }
  };

  const sendNext = (): void => {
    const { batch, left } = nextBatch(pending, options.sizeOf);
    pending = left;
    if (batch.length === 0) requests--;
    else void sendBatch(batch).then(sendNext);
  };

  return (item, signal) => {
    if (requests < maxRequests) {
      requests++;
      const result = receiveOne(item, signal);
      result.then(sendNext, sendNext);
      return result;
    }
    const result = new Promise<Result>((resolve, reject) => {
      pending.push({ item, key: keyOf(item), signal, resolve, reject });
    });
    return abortable(result, signal);
  };
}

/** The oldest calls that fit into one batch. Calls that were aborted are in neither list: they are rejected already. */
function nextBatch<Item, Result>(
  pending: readonly PendingCall<Item, Result>[],
  sizeOf: (item: Item) => number,
) {
  const batch: PendingCall<Item, Result>[] = [];
  const left: PendingCall<Item, Result>[] = [];
  const keys = new Set<string>();
  let size = 0;
  for (const call of pending) {
    if (call.signal?.aborted) continue;
    size += sizeOf(call.item);
    const fits = batch.length === 0 || (batch.length < maxItems && size <= maxSize);
    if (!fits || keys.has(call.key)) left.push(call);
    else {
      keys.add(call.key);
      batch.push(call);
    }
  }
  return { batch, left };
}

function rejectAll(calls: readonly { readonly reject: (error: unknown) => void }[], error: unknown): void {
  for (const { reject } of calls) reject(error);
}

/**
 * A signal that is aborted with the last of `signals`. Without it, a batch whose server does not respond would keep its
 * slot after every caller has given up, and four such batches would block all other calls.
 */
function abortedByAll(signals: readonly (AbortSignal | undefined)[]): {
  readonly signal: AbortSignal | undefined;
  readonly stop: () => void;
} {
  const each = signals.filter((signal) => signal !== undefined);
  if (each.length < signals.length) return { signal: undefined, stop: () => {} };
  const all = new AbortController();
  const check = (): void => {
    if (each.every((signal) => signal.aborted)) all.abort();
  };
  for (const signal of each) signal.addEventListener("abort", check);
  return {
    signal: all.signal,
    stop: () => {
      for (const signal of each) signal.removeEventListener("abort", check);
    },
  };
}
