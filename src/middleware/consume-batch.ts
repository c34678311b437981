import { severalAtOnce } from "../base/several-at-once.js";
import type { Consume } from "./consume.js";
import type { TriggerMessage } from "./trigger-message.js";

export interface BatchEntry {
  readonly message: TriggerMessage;
  /** What the platform wants to be told about a message that failed. */
  readonly receipt: string;
}

export interface BatchOptions {
  /** So many messages, or groups of ordered ones, at once. */
  readonly concurrency: number;
  /** Of the function's time. What could not be started in it has not failed, but has to come again. */
  readonly remainingMs: () => number;
  /** Nothing is started with less than this left. */
  readonly reserveMs: number;
}

/**
 * Handles a batch and answers the receipts of what has to be delivered again, in the order of the batch. Messages with
 * the same partition key are handled in order, and after one that failed none that follow it.
 */
export async function consumeBatch(
  entries: readonly BatchEntry[],
  consume: Consume,
  options: BatchOptions,
): Promise<readonly string[]> {
  const failed = new Set<BatchEntry>();
  const runLane = async (lane: readonly BatchEntry[]): Promise<void> => {
    for (const [index, entry] of lane.entries()) {
      const isLate = options.remainingMs() < options.reserveMs;
      if (isLate || (await consume(entry.message)).end === "failed") {
        for (const rest of lane.slice(index)) failed.add(rest);
        return;
      }
    }
  };
  await severalAtOnce(lanesOf(entries), options.concurrency, runLane);
  return entries.filter((entry) => failed.has(entry)).map((entry) => entry.receipt);
}

function lanesOf(entries: readonly BatchEntry[]): BatchEntry[][] {
  const ordered = new Map<string, BatchEntry[]>();
  const lanes: BatchEntry[][] = [];
  for (const entry of entries) {
    const key = entry.message.partitionKey;
    const lane = key === null ? undefined : ordered.get(key);
    if (lane !== undefined) lane.push(entry);
    else {
      const made = [entry];
      lanes.push(made);
      if (key !== null) ordered.set(key, made);
    }
  }
  return lanes;
}
