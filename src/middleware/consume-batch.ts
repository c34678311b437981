import type { Budget } from "../base/budget.js";
import { severalAtOnce } from "../base/several-at-once.js";
import type { Consume } from "./consume.js";
import type { TriggerMessage } from "./trigger-message.js";

export interface BatchEntry {
  readonly message: TriggerMessage;
  /** How the platform names a message that failed. */
  readonly receipt: string;
}

export interface BatchOptions {
  /** How many messages, or partitions, are handled at once. */
  readonly concurrency: number;
  /** The function's time. A message that is not started in time is reported like a failed one. */
  readonly budget: Budget;
  /** With less time than this left, no message is started. */
  readonly reserveMs: number;
}

/**
 * Handles a batch. Returns the receipts of the messages that the queue must deliver again, in the order of the batch.
 * Messages with the same partition key are handled in order, and none of them after one that failed.
 */
export async function consumeBatch(
  entries: readonly BatchEntry[],
  consume: Consume,
  { concurrency, budget, reserveMs }: BatchOptions,
): Promise<readonly string[]> {
  const failed = new Set<BatchEntry>();
  const consumePartition = async (partition: readonly BatchEntry[]): Promise<void> => {
    for (const [index, entry] of partition.entries()) {
      const isLate = budget.signal.aborted || budget.remainingMs() < reserveMs;
      if (isLate || (await consume(entry.message)).end === "failed") {
        for (const unhandled of partition.slice(index)) failed.add(unhandled);
        return;
      }
    }
  };
  await severalAtOnce(byPartition(entries), concurrency, consumePartition);
  return entries.filter((entry) => failed.has(entry)).map((entry) => entry.receipt);
}

/** A message without a partition key is a partition of its own. */
function byPartition(entries: readonly BatchEntry[]): BatchEntry[][] {
  const keyed = new Map<string, BatchEntry[]>();
  const partitions: BatchEntry[][] = [];
  for (const entry of entries) {
    const key = entry.message.partitionKey;
    const partition = key === null ? undefined : keyed.get(key);
    if (partition !== undefined) partition.push(entry);
    else {
      const started = [entry];
      partitions.push(started);
      if (key !== null) keyed.set(key, started);
    }
  }
  return partitions;
}
