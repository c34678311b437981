import type { MetricAttributes } from "../base/metrics.js";
import type { QueueMessage } from "../queue/message.js";
import type { RunState } from "./run-state.js";
import type { HandlingEnd } from "./settlement.js";
import type { TopicRecord } from "./topic-records.js";

/** The messages of one topic that ended in one way and are not counted yet. */
export interface HandledCount {
  /** One object for all of them: metrics take most of their time to tell attributes apart. */
  readonly attributes: MetricAttributes;
  handled: number;
}

export function handledCountOf<Message, Tx>(
  { name, outcomes }: TopicRecord<Message, Tx>,
  { kind }: HandlingEnd,
): HandledCount {
  let count = outcomes.get(kind);
  if (count === undefined) {
    count = { attributes: { topic: name, outcome: kind }, handled: 0 };
    outcomes.set(kind, count);
  }
  return count;
}

export function countHandled<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  topic: TopicRecord<Message, Tx>,
  end: HandlingEnd,
): void {
  if (run.config.metrics === undefined) return;
  const count = handledCountOf(topic, end);
  count.handled++;
  run.uncounted.add(count);
}

/** Passes the counts on: once for each turn of the run's loop, not once for each message. */
export function flushHandled<Message extends QueueMessage, Tx>({
  uncounted,
  config,
}: RunState<Message, Tx>): void {
  if (uncounted.size === 0) return;
  for (const count of uncounted) {
    const { handled, attributes } = count;
    count.handled = 0;
    if (handled > 0) config.metrics?.count("oncebox.handled", handled, attributes); // 0: another run was first
  }
  uncounted.clear();
}
