import type { QueueKind } from "../queue/any-queue.js";
import type { QueueStats } from "../queue/work-store.js";
import { phaseLine } from "./phase-line.js";

/** The numbers of a queue: how many messages are in which state, and how many are due. */
export function statusLine(queue: QueueKind, stats: QueueStats<string>): string {
  const { due, oldestDueAgeMs } = stats;
  const age = oldestDueAgeMs === null ? "" : `, the oldest for ${Math.round(oldestDueAgeMs / 1000)} s`;
  return `${phaseLine(queue, stats)}  (due now: ${due}${age})`;
}
