import { safeReason } from "../base/safe-reason.js";
import { type OperatedStores, withOperators } from "../operators/with-operators.js";
import { deadState, type QueueKind, queueOf } from "../queue/any-queue.js";
import type { CallOptions } from "../queue/work-store.js";
import type { AdminStores } from "./queue-stores.js";

/** How one queue is. */
export interface QueueReport {
  /** Messages that could be claimed now, and how long the oldest of them has been due. */
  readonly due: number;
  readonly oldestDueAgeMs: number | null;
  /** Messages that wait for the end of a pause: `due` is without them. */
  readonly pausedMessages: number;
  readonly dead: number;
  /** Whether the whole queue is paused. */
  readonly paused: boolean;
}

/** How the queues of one database are, or why that cannot be said. */
export type StoreReport =
  | { readonly reachable: true; readonly inbox: QueueReport; readonly outbox: QueueReport }
  | { readonly reachable: false; readonly reason: string };

export async function storeReport(
  stores: () => Promise<AdminStores>,
  call: CallOptions,
): Promise<StoreReport> {
  try {
    const opened = withOperators(await stores());
    const [inbox, outbox] = await Promise.all([
      queueReport(opened, "inbox", call),
      queueReport(opened, "outbox", call),
    ]);
    return { reachable: true, inbox, outbox };
  } catch (error) {
    return { reachable: false, reason: safeReason(error) };
  }
}

async function queueReport(
  stores: OperatedStores,
  queue: QueueKind,
  call: CallOptions,
): Promise<QueueReport> {
  const store = queueOf(stores, queue);
  const { due, oldestDueAgeMs, counts, phases } = await store.stats(call);
  const controls = await store.controls(call);
  return {
    due,
    oldestDueAgeMs,
    pausedMessages: phases.paused,
    dead: counts[deadState[queue]] ?? 0,
    paused: controls.some(({ scope, paused }) => scope === "queue" && paused),
  };
}
