import { type Logger, safeReason } from "../base/logger.js";
import { withDeadline } from "../base/timers.js";
import { maxNameLength } from "../queue/arguments.js";
import type { InboxMessage, QueueMessage } from "../queue/message.js";
import type { DispatchStore } from "../queue/work-store.js";

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
