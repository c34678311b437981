import type { Budget } from "../../../src/base/async.js";
import type { Logger } from "../../../src/base/logger.js";
import type { RetryPolicy } from "../../../src/queue/retry-policy.js";
import { type ContractHarness, type TestClock, type TestDatabase, useDatabase } from "../harness.js";
import type { QueueKind } from "../queue/set-up.js";
import { type AnyMessage, createQueueContext, type QueueStore } from "../queue/support.js";
import { type LogLine, recordingLogger } from "../support/recording-logger.js";

export type { AnyMessage } from "../queue/support.js";

/** An inbox or an outbox, so that one test proves both. */
export interface Subject {
  readonly store: QueueStore;
  readonly clock: TestClock;
  readonly logs: LogLine[];
  readonly logger: Logger;
  enqueue(topic: string, payloads: readonly string[]): Promise<void>;
  /** All messages as they are stored now, in the order they were enqueued. */
  all(): Promise<readonly AnyMessage[]>;
  countIn(state: "done" | "dead" | "pending"): Promise<number>;
}

export interface DispatchContext {
  readonly database: () => TestDatabase;
  subject(kind: QueueKind, options?: SubjectOptions): Promise<Subject>;
}

export interface SubjectOptions {
  readonly retry?: Partial<RetryPolicy>;
  readonly realTime?: boolean;
}

export function createDispatchContext(harness: ContractHarness): DispatchContext {
  const database = useDatabase(harness);
  return {
    database,
    async subject(kind, options = {}) {
      const { queue, states } = createQueueContext(kind, database);
      const logs: LogLine[] = [];
      const logger = recordingLogger(logs);
      const { store, clock } = await queue({ ...options, logger });
      return {
        store,
        clock,
        logs,
        logger,
        async enqueue(topic, payloads) {
          await store.add(payloads.map((payload) => ({ topic, payload })));
        },
        all: async () => (await store.list({ limit: 1000 })).messages,
        async countIn(state) {
          const { counts } = await store.stats();
          const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
          const [done, dead] = [counts[states.done]!, counts[states.dead]!];
          return state === "done" ? done : state === "dead" ? dead : total - done - dead;
        },
      };
    },
  };
}

/** A budget whose time a test sets. */
export function testBudget(remainingMs = 60_000): Budget & { remaining: number; stop(): void } {
  const controller = new AbortController();
  return {
    remaining: remainingMs,
    signal: controller.signal,
    remainingMs() {
      return this.remaining;
    },
    stop: () => controller.abort(),
  };
}
