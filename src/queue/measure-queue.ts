import { guardedMetrics, type Metrics } from "../base/metrics.js";
import { inboxPhases, type Phase } from "./phase.js";
import type { CallOptions, QueueStats } from "./work-store.js";

/** The part of an inbox or outbox that is measured. */
export interface MeasuredQueue {
  readonly id: string;
  readonly queue?: string;
  stats(options?: CallOptions): Promise<QueueStats<string>>;
  oldestDueAgeMs(options?: CallOptions): Promise<number | null>;
}

/**
 * Writes the gauges of a queue: its due messages, those that wait for a pause or a limit, the age of its oldest due message, and its
 * messages by phase. It counts all messages, Done ones too. The reaper of an app does it; call it once a minute in a process without one.
 *
 * @example
 * setInterval(() => measureQueue(outbox, metrics).catch(report), 60_000);
 */
export async function measureQueue(
  store: MeasuredQueue,
  metrics: Metrics,
  call: CallOptions = {},
): Promise<void> {
  const { gauge } = guardedMetrics(metrics);
  const queue = queueName(store);
  const { counts, phases, due, controlled, oldestDueAgeMs } = await store.stats(call);
  gauge("oncebox.queue.due", due, { queue });
  gauge("oncebox.queue.controlled", controlled, { queue });
  gauge("oncebox.queue.oldest_due_age", oldestDueAgeMs ?? 0, { queue });
  for (const [state, messages] of Object.entries(phases))
    if ("Seen" in counts || !inboxPhases.includes(state as Phase))
      gauge("oncebox.queue.messages", messages, { queue, state });
}

/** In metrics and traces. */
export const queueName = ({ queue, id }: Pick<MeasuredQueue, "queue" | "id">): string => queue ?? id;
