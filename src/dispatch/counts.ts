import type { MetricAttributes, Metrics } from "../base/telemetry.js";
import type { HandlingEnd } from "./settlement.js";
import type { TopicRecord } from "./timing.js";

export interface RunCounts {
  claimed: number;
  handled: number;
  acked: number;
  abandoned: number;
  failed: number;
  released: number;
  lost: number;
  /** Handlers that were given up and have not returned since. */
  stuck: number;
}

/** The messages of one topic that ended in one way and are not reported yet. */
export interface HandledCount {
  /** One object for all of them: metrics take most of their time to tell attributes apart. */
  readonly attributes: MetricAttributes;
  handled: number;
}

/** Dead messages are counted by the store: it also knows those that no dispatcher made dead. */
const metricOf = {
  claimed: "oncebox.claimed",
  acked: "oncebox.acked",
  abandoned: "oncebox.retried",
  failed: undefined,
  released: "oncebox.released",
  lost: "oncebox.lease.lost",
} as const;

/** What a run has done so far: the numbers of its result, and the same numbers as metrics. */
export class Counts {
  readonly total: RunCounts = {
    claimed: 0,
    handled: 0,
    acked: 0,
    abandoned: 0,
    failed: 0,
    released: 0,
    lost: 0,
    stuck: 0,
  };
  readonly #metrics: Metrics | undefined;
  readonly #queue: string;
  readonly #unreported = new Set<HandledCount>();

  constructor(metrics: Metrics | undefined, queue: string) {
    this.#metrics = metrics;
    this.#queue = queue;
  }

  /** Counts the messages of one call of the store. `dead` is how many of them became dead and are not retried. */
  add(name: keyof typeof metricOf, messages: number, dead = 0): void {
    this.total[name] += messages;
    const metric = metricOf[name];
    if (metric !== undefined && messages > dead)
      this.#metrics?.count(metric, messages - dead, { queue: this.#queue });
  }

  handlerReturned<Message, Tx>(topic: TopicRecord<Message, Tx>, end: HandlingEnd, tookMs: number): void {
    this.#metrics?.duration("oncebox.handler.duration", tookMs, handledCountOf(topic, end).attributes);
  }

  handled<Message, Tx>(topic: TopicRecord<Message, Tx>, end: HandlingEnd): void {
    this.total.handled++;
    if (this.#metrics === undefined) return;
    const count = handledCountOf(topic, end);
    count.handled++;
    this.#unreported.add(count);
  }

  stuck(topic: string): void {
    this.total.stuck++;
    this.#metrics?.count("oncebox.handler.stuck", 1, { topic });
  }

  /** Reports handled messages: once for each turn of the run's loop, not once for each message. */
  flushHandled(): void {
    if (this.#unreported.size === 0) return;
    for (const count of this.#unreported) {
      const { handled, attributes } = count;
      count.handled = 0;
      if (handled > 0) this.#metrics?.count("oncebox.handled", handled, attributes); // 0: another run was first
    }
    this.#unreported.clear();
  }

  runEnded(stopped: string): void {
    this.#metrics?.count("oncebox.runs", 1, { queue: this.#queue, stopped });
  }
}

function handledCountOf<Message, Tx>(
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
