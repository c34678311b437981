import type { QueueMessage } from "../queue/message.js";
import type { DispatcherConfig } from "./dispatcher.js";
import { type DurationEstimate, durationEstimate } from "./duration-estimate.js";
import type { HandledCount } from "./handled-counts.js";
import type { TopicPlan } from "./topic-plans.js";

/** What a run knows about one topic, or about all topics of one pattern. */
export interface TopicRecord<Message, Tx> extends TopicPlan<Message, Tx> {
  /** Handlers of this topic that may run at once. */
  readonly maxConcurrency: number;
  readonly durations: DurationEstimate;
  /** Infinity: only the end of the run limits a handler. */
  readonly timeoutMs: number;
  readonly leaseMs: number;
  running: number;
  /** By how the handling ended. */
  readonly outcomes: Map<string, HandledCount>;
}

export interface TopicRecords<Message, Tx> {
  of(topic: string): TopicRecord<Message, Tx>;
  /** The mean duration of the fastest topic. */
  quickestMs(): number;
}

/**
 * A message is started when this fraction of its topic's recent handlers would have ended in the time that is left; see
 * docs/decisions/0007-what-fits-into-the-time.md.
 */
const likelyEnough = 0.8;

export const fitsInto = <Message, Tx>(record: TopicRecord<Message, Tx>, ms: number): boolean =>
  record.durations.fractionWithin(ms) >= likelyEnough;

export function topicRecords<Message extends QueueMessage, Tx>(
  config: DispatcherConfig<Message, Tx>,
  defaultTimeoutMs: number,
): TopicRecords<Message, Tx> {
  const records = new Map<string, TopicRecord<Message, Tx>>();
  /** The topic and record returned last: consecutive messages often have the same topic. */
  let last: { readonly topic: string; readonly record: TopicRecord<Message, Tx> } | undefined;

  /** Only topics with a handler are learned: the number of other topics has no bound. */
  const durationsOf = (topic: string, hasHandler: boolean): DurationEstimate => {
    if (!hasHandler) return durationEstimate(0);
    let durations = config.durations.get(topic);
    if (durations === undefined) {
      durations = durationEstimate(config.expectedHandlerMs);
      config.durations.set(topic, durations);
    }
    return durations;
  };

  const outcomesOf = (topic: string, hasHandler: boolean): Map<string, HandledCount> => {
    const outcomes = config.outcomes.get(topic) ?? new Map<string, HandledCount>();
    if (hasHandler) config.outcomes.set(topic, outcomes);
    return outcomes;
  };

  const newRecord = (plan: TopicPlan<Message, Tx>): TopicRecord<Message, Tx> => {
    const { name, handler } = plan;
    return {
      ...plan,
      maxConcurrency: handler?.concurrency ?? config.concurrency,
      durations: durationsOf(name, handler !== undefined),
      timeoutMs: handler?.timeoutMs ?? config.timeoutMs ?? defaultTimeoutMs,
      leaseMs: handler?.leaseMs ?? config.leaseMs,
      running: 0,
      outcomes: outcomesOf(name, handler !== undefined),
    };
  };

  return {
    of(topic) {
      if (last?.topic === topic) return last.record;
      const plan = config.planOf(topic);
      const record = records.get(plan.name) ?? newRecord(plan);
      records.set(plan.name, record);
      last = { topic, record };
      return record;
    },
    quickestMs() {
      let quickest = Number.POSITIVE_INFINITY;
      for (const topic of config.handlers.keys()) {
        quickest = Math.min(quickest, config.durations.get(topic)?.meanMs() ?? config.expectedHandlerMs);
      }
      // Without a handler there is none, and a worker's time is infinite, too: their ratio would not be a number.
      return Number.isFinite(quickest) ? quickest : config.expectedHandlerMs;
    },
  };
}
