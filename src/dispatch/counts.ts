import type { MetricAttributes, Metrics } from "../base/telemetry.js";
import type { TopicPlan } from "./handlers.js";
import type { HandlingEnd } from "./settlement.js";

export interface RunCounts {
  claimed: number;
  handled: number;
  acked: number;
  abandoned: number;
  failed: number;
  released: number;
  lost: number;
  /** Of those acknowledged: the ones that no handler is for. Topics of `ignore` do not count. */
  unhandled: number;
  /** Handlers that were given up and have not returned since. */
  stuck: number;
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
    unhandled: 0,
    stuck: 0,
  };
  readonly #metrics: Metrics | undefined;
  readonly #queue: string;
  /** Handled messages that are not reported yet. */
  readonly #unreported = new Map<MetricAttributes, number>();

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

  handlerReturned(topic: TopicPlan, end: HandlingEnd, tookMs: number): void {
    this.#metrics?.duration("oncebox.handler.duration", tookMs, attributesOf(topic, end));
  }

  handled(topic: TopicPlan, end: HandlingEnd): void {
    this.total.handled++;
    if (this.#metrics === undefined) return;
    const attributes = attributesOf(topic, end);
    this.#unreported.set(attributes, (this.#unreported.get(attributes) ?? 0) + 1);
  }

  unhandled(): void {
    this.total.unhandled++;
    this.#metrics?.count("oncebox.unhandled", 1, { queue: this.#queue });
  }

  stuck(topic: string): void {
    this.total.stuck++;
    this.#metrics?.count("oncebox.handler.stuck", 1, { topic });
  }

  /** Reports handled messages: once for each turn of the run's loop, not once for each message. */
  flushHandled(): void {
    for (const [attributes, handled] of this.#unreported)
      this.#metrics?.count("oncebox.handled", handled, attributes);
    this.#unreported.clear();
  }

  runEnded(stopped: string): void {
    this.#metrics?.count("oncebox.runs", 1, { queue: this.#queue, stopped });
  }
}

/** One object for all messages of a topic that ended in one way: metrics take most of their time to tell attributes apart. */
function attributesOf({ name, attributes }: TopicPlan, { kind }: HandlingEnd): MetricAttributes {
  const known = attributes.get(kind) ?? { topic: name, outcome: kind };
  attributes.set(kind, known);
  return known;
}
