import { withDeadline } from "../base/async.js";
import { type Logger, safeReason } from "../base/logger.js";
import type { MetricAttributes, Metrics } from "../base/telemetry.js";
import { maxNameLength } from "../queue/arguments.js";
import type { InboxMessage, QueueMessage } from "../queue/message.js";
import type { DispatchStore } from "../queue/work-store.js";
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

/** How long a run that goes on collects topics before it records them. */
const collectMs = 10_000;

/** A sender names the types of its events. A process counts and reports no more than so many of them by themselves. */
const mostTopics = 1_000;

/** These topics, by the process's logger: the dispatchers of all tenants share one. */
const reportedTo = new WeakMap<Logger, Set<string>>();

interface UnhandledHost {
  readonly store: DispatchStore<QueueMessage>;
  readonly config: { readonly logger: Logger; readonly settleTimeoutMs: number };
  readonly logger: Logger;
}

/**
 * The messages that a run acknowledges although no handler is for them, by topic: one log line for each topic and process, and a
 * count in the database, where another process can read it.
 */
export class UnhandledTopics {
  readonly #run: UnhandledHost;
  #counts = new Map<string, number>();
  #recordAt = 0;

  constructor(run: UnhandledHost) {
    this.#run = run;
  }

  add(message: QueueMessage): void {
    const name = this.#isReported(message.topic) ? message.topic : othersOf(message);
    if (this.#counts.size === 0) this.#recordAt = performance.now() + collectMs;
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
  }

  /** Whether the topic has a line of its own, now or before. */
  #isReported(topic: string): boolean {
    const { config, logger } = this.#run;
    const reported = reportedTo.get(config.logger) ?? new Set();
    reportedTo.set(config.logger, reported);
    if (reported.has(topic)) return true;
    if (reported.size >= mostTopics) return false;
    reported.add(topic);
    logger.warn("no handler for this topic; its messages are acknowledged", { topic });
    return true;
  }

  /** While the run goes on: records what is due, and waits for nothing. */
  recordDue(now: number): void {
    if (this.untilDueMs(now) <= 0) void this.record();
  }

  /** Milliseconds until `recordDue` has something to do. */
  untilDueMs(now: number): number {
    return this.#counts.size === 0 ? Number.POSITIVE_INFINITY : this.#recordAt - now;
  }

  /** Never rejects: the messages are settled, and what is lost is a number for people. */
  async record(leftMs = Number.POSITIVE_INFINITY): Promise<void> {
    const { store, logger, config } = this.#run;
    const timeoutMs = Math.min(config.settleTimeoutMs, leftMs);
    if (this.#counts.size === 0 || store.recordUnhandled === undefined || timeoutMs <= 0) return;
    const topics = [...this.#counts].map(([topic, messages]) => ({ topic, messages }));
    this.#counts = new Map();
    try {
      await withDeadline(timeoutMs, "Recording unhandled topics", async (signal) => {
        await store.recordUnhandled?.(topics, { signal });
      });
    } catch (error) {
      logger.warn("unhandled topics were not recorded", {
        topics: topics.length,
        error: safeReason(error),
      });
    }
  }
}

/** Where the topics of a source are counted together. A name that would be too long for a topic is left out. */
function othersOf(message: QueueMessage): string {
  const { source } = message as Partial<InboxMessage>;
  const name = `${source}.*`;
  return source === undefined || name.length > maxNameLength ? "*" : name;
}
