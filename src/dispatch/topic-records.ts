import type { QueueMessage } from "../queue/message.js";
import type { DispatcherConfig } from "./dispatcher.js";
import { type DurationEstimate, durationEstimate } from "./duration-estimate.js";
import type { HandledCount } from "./handled-counts.js";
import type { ResolvedHandler } from "./handlers.js";

/** What a run knows about one topic. */
export interface TopicRecord<Message, Tx> {
  readonly name: string;
  readonly handler: ResolvedHandler<Message, Tx> | undefined;
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
  /** The record returned last: consecutive messages often have the same topic. */
  let last: TopicRecord<Message, Tx> | undefined;

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

  return {
    of(topic) {
      if (last?.name === topic) return last;
      let record = records.get(topic);
      if (record === undefined) {
        const handler = config.handlers.get(topic);
        const maxConcurrency = handler?.concurrency ?? config.concurrency;
        const durations = durationsOf(topic, handler !== undefined);
        record = {
          name: topic,
          handler,
          maxConcurrency,
          durations,
          timeoutMs: handler?.timeoutMs ?? config.timeoutMs ?? defaultTimeoutMs,
          leaseMs: handler?.leaseMs ?? config.leaseMs,
          running: 0,
          outcomes: outcomesOf(topic, handler !== undefined),
        };
        records.set(topic, record);
      }
      last = record;
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
