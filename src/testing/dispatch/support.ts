import type { Budget } from "../../base/budget.js";
import type { Logger } from "../../base/logger.js";
import { createOutbox } from "../../outbox/outbox.js";
import type { InboxMessage, OutboxMessage, QueueMessage } from "../../queue/message.js";
import type { RetryPolicy } from "../../queue/retry-policy.js";
import type { WorkStore } from "../../queue/work-store.js";
import type { SqlExecutor } from "../../sql/driver.js";
import { migrate } from "../../sql/migrate.js";
import type { ContractHarness, TestClock, TestDatabase } from "../harness.js";
import { testClock } from "../harness.js";
import { createInboxContext } from "../inbox/support.js";
import type { LogLine } from "../outbox/support.js";
import { recordingLogger } from "../outbox/support.js";

export type AnyMessage = QueueMessage & { readonly state: string; readonly messageId: string };
export type AnyStore = WorkStore<AnyMessage, AnyMessage, string, SqlExecutor>;

/** An inbox or an outbox, so that one test proves both. */
export interface Subject {
  readonly store: AnyStore;
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
  readonly kinds: readonly ("inbox" | "outbox")[];
  subject(kind: "inbox" | "outbox", options?: SubjectOptions): Promise<Subject>;
}

export interface SubjectOptions {
  readonly retry?: Partial<RetryPolicy>;
  readonly realTime?: boolean;
}

export function createDispatchContext(harness: ContractHarness): DispatchContext {
  const context = createInboxContext(harness);
  let boxes = 0;

  const inboxSubject = async (options: SubjectOptions): Promise<Subject> => {
    const { inbox, clock, logs } = await context.freshInbox(options);
    return subjectOf(
      inbox as unknown as AnyStore,
      clock,
      logs as LogLine[],
      ["Done", "Dead"],
      async (topic, payloads) => {
        await inbox.enqueue(payloads.map((payload) => context.message({ topic, payload })));
      },
    );
  };

  const outboxSubject = async ({ realTime = false, ...options }: SubjectOptions): Promise<Subject> => {
    const { db, schema } = context.database();
    const named = { ...(schema === undefined ? {} : { schema }), outbox: `DispatchBox${++boxes}` };
    await migrate(db, { ...named, inbox: false });
    const clock = testClock();
    const logs: LogLine[] = [];
    const outbox = createOutbox(db, {
      ...(schema === undefined ? {} : { schema }),
      table: named.outbox,
      logger: recordingLogger(logs),
      ...(realTime ? {} : { clock }),
      ...options,
    });
    return subjectOf(
      outbox as unknown as AnyStore,
      clock,
      logs,
      ["Done", "Failed"],
      async (topic, payloads) => {
        await outbox.enqueue(payloads.map((payload) => ({ topic, payload })));
      },
    );
  };

  return {
    database: context.database,
    kinds: ["inbox", "outbox"],
    subject: (kind, options = {}) => (kind === "inbox" ? inboxSubject(options) : outboxSubject(options)),
  };
}

function subjectOf(
  store: AnyStore,
  clock: TestClock,
  logs: LogLine[],
  [done, dead]: readonly [string, string],
  enqueue: Subject["enqueue"],
): Subject {
  return {
    store,
    clock,
    logs,
    logger: recordingLogger(logs),
    enqueue,
    all: async () => (await store.list({ limit: 1000 })).messages,
    async countIn(state) {
      const { counts } = await store.stats();
      const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
      const finished = counts[done]! + counts[dead]!;
      return state === "done" ? counts[done]! : state === "dead" ? counts[dead]! : total - finished;
    },
  };
}

export type { InboxMessage, OutboxMessage };

/** A budget whose time the test tells. */
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

/** A promise and what settles it. */
export function gate<T = void>(): { readonly promise: Promise<T>; open(value: T): void } {
  let open: (value: T) => void = () => {};
  const promise = new Promise<T>((resolve) => {
    open = resolve;
  });
  return { promise, open };
}
