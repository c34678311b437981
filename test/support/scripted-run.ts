import { afterEach, beforeEach, vi } from "vitest";
import { yieldToEventLoop } from "../../src/base/async.js";
import type { RunOptions } from "../../src/dispatch/dispatch-run.js";
import {
  createDispatcher,
  type DispatcherOptions,
  type DispatchResult,
  type HandlerContext,
  type QueueMessage,
} from "../../src/index.js";
import type { Abandonment, DispatchStore, Settlement } from "../../src/queue/work-store.js";
import { testBudget } from "../contract/dispatch/support.js";

/** Time stands still until a test passes it; the event loop is real. */
export function useSimulatedTime(): void {
  beforeEach(() => {
    vi.useFakeTimers({
      toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "performance"],
    });
  });
  afterEach(() => {
    vi.useRealTimers();
  });
}

/** Waits until a run has done all that needs no time: a step of its loop is one turn of the event loop. */
export async function quiet(turns = 20): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await yieldToEventLoop();
}

/** Passes simulated time, in steps that are short enough for every timer of a run. */
export async function pass(ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 10) {
    await vi.advanceTimersByTimeAsync(Math.min(10, left));
    await quiet(4);
  }
  await quiet();
}

export const never = () => new Promise<never>(() => {});

export const message = (seq: number, fields: Partial<QueueMessage> = {}): QueueMessage => ({
  seq,
  topic: "t",
  type: "t",
  payload: "",
  data: undefined,
  headers: null,
  correlationId: null,
  partitionKey: null,
  attempt: 0,
  dueAt: null,
  expiresAt: null,
  nextAttemptAt: new Date(0),
  lockedUntil: null,
  owner: null,
  lastError: null,
  lastAttemptAt: null,
  diedAt: null,
  errorGroup: null,
  processedAt: null,
  processedBy: null,
  crashes: 0,
  ...fields,
});

export const messages = (count: number, fields: Partial<QueueMessage> = {}): readonly QueueMessage[] =>
  Array.from({ length: count }, (_, index) => message(index + 1, fields));

/** A message that must be handled by itself. */
export const suspect = (seq: number, fields: Partial<QueueMessage> = {}): QueueMessage =>
  message(seq, { crashes: 2, ...fields });

export type TestStore = DispatchStore<QueueMessage>;
export type Settled = Settlement<QueueMessage>;

export const changed = (all: readonly QueueMessage[]): Settled => ({ changed: all, lost: [], dead: [] });
export const lost = (all: readonly QueueMessage[]): Settled => ({ changed: [], lost: all, dead: [] });

/** A settlement or a renewal. */
export interface StoreCall {
  readonly verb: "ack" | "abandon" | "fail" | "release" | "renew";
  /** Which claim the messages are from: 1 is the first. */
  readonly claim: number;
  readonly seqs: readonly number[];
  readonly messages: readonly QueueMessage[];
  readonly signal: AbortSignal | undefined;
  /** Of an abandonment. */
  readonly items?: readonly Abandonment<QueueMessage>[];
  /** Of a renewal. */
  readonly leaseMs?: number;
}

export interface RunScript
  extends Partial<Omit<DispatcherOptions<QueueMessage>, "handlers" | "store" | "transaction">> {
  /** What the claims return, one after the other; then nothing. */
  readonly claims?: readonly (readonly QueueMessage[] | (() => Promise<readonly QueueMessage[]>))[];
  /** By topic. Handlers of "t" never return by default. */
  readonly handlers?: Readonly<Record<string, TestHandler | (TestTopic & { readonly handle: TestHandler })>>;
  /** What a settlement or renewal returns: that all messages changed, by default. */
  readonly answer?: (call: StoreCall) => Promise<Settled | undefined> | Settled | undefined;
  readonly transaction?: TestStore["transaction"];
  /** What the budget has left: 60 s by default. It changes only when a test sets it. */
  readonly remainingMs?: number;
  /** Stop before the run starts. */
  readonly isStopped?: boolean;
  readonly run?: RunOptions;
}

type TestHandler = (message: QueueMessage, context: HandlerContext) => unknown;
interface TestTopic {
  readonly concurrency?: number;
  readonly leaseMs?: number;
  readonly timeoutMs?: number;
  readonly retry?: { readonly maxAttempts: number };
  readonly transactional?: boolean;
}

/** A run of a dispatcher over a store that returns what a test says, and records what the run asks of it. */
export function startRun({
  claims = [],
  handlers = { t: never },
  answer = () => undefined,
  transaction = (work) => work(undefined),
  remainingMs = 60_000,
  isStopped = false,
  run: runOptions,
  ...options
}: RunScript = {}) {
  const budget = testBudget(remainingMs);
  if (isStopped) budget.stop();
  const owners: string[] = [];
  const claimSizes: (number | undefined)[] = [];
  const calls: StoreCall[] = [];
  const started: number[] = [];

  const settle = async (
    verb: StoreCall["verb"],
    owner: string,
    all: readonly QueueMessage[],
    more: Partial<StoreCall>,
  ): Promise<Settled> => {
    const seqs = all.map(({ seq }) => seq);
    const call = { signal: undefined, ...more, verb, claim: owners.indexOf(owner) + 1, seqs, messages: all };
    calls.push(call);
    return (await answer(call)) ?? changed(all);
  };
  const store: TestStore = {
    id: "s",
    async claim({ owner, batchSize, signal }) {
      owners.push(owner);
      claimSizes.push(batchSize);
      const next = claims[owners.length - 1] ?? [];
      if (typeof next !== "function") return next;
      const isAborted = new Promise<never>((_, reject) =>
        signal?.addEventListener("abort", () => reject(signal.reason)),
      );
      return Promise.race([next(), isAborted]);
    },
    ack: (owner, all, call) => {
      const acked = all.map((one) => ("message" in one ? one.message : one) as QueueMessage);
      return settle("ack", owner, acked, { signal: call?.signal });
    },
    abandon: (owner, items: readonly Abandonment<QueueMessage>[], call) => {
      const all = items.map((item) => item.message);
      return settle("abandon", owner, all, { signal: call?.signal, items });
    },
    fail: (owner, all, _error, call) => settle("fail", owner, all, { signal: call?.signal }),
    release: (owner, all, call) => settle("release", owner, all, { signal: call?.signal }),
    renew: (owner, all, leaseMs, call) => settle("renew", owner, all, { signal: call?.signal, leaseMs }),
    transaction,
  };

  const recording =
    (handle: TestHandler): TestHandler =>
    (handled, context) => {
      started.push(handled.seq);
      return handle(handled, context);
    };
  const recorded = Object.entries(handlers).map(([topic, entry]) => [
    topic,
    typeof entry === "function" ? recording(entry) : { ...entry, handle: recording(entry.handle) },
  ]);
  const dispatcher = createDispatcher<QueueMessage>({
    reserveMs: 100,
    ...options,
    handlers: Object.fromEntries(recorded),
  });

  const ended = dispatcher.run(store, budget, runOptions);
  ended.catch(() => {}); // the test that expects it awaits it
  const of = (verb: StoreCall["verb"]): readonly StoreCall[] => calls.filter((call) => call.verb === verb);
  return {
    budget,
    /** The sizes of the claims so far. */
    claimSizes,
    calls,
    /** The row numbers of messages whose handler was called. */
    started,
    ended,
    /** The messages of all calls of this verb so far. */
    seqsOf: (verb: StoreCall["verb"]): readonly number[] => of(verb).flatMap(({ seqs }) => seqs),
    /** The settlements and renewals so far: `ack 1,2 of 1` acknowledges messages 1 and 2 of the first claim. */
    sent: (): readonly string[] => calls.map(({ verb, seqs, claim }) => `${verb} ${seqs.join()} of ${claim}`),
    /** Ends the run with just enough time to settle: handlers that still run are given up, what waits is released. */
    async end(): Promise<DispatchResult> {
      budget.remaining = 99;
      budget.stop();
      await pass(100);
      return ended;
    },
  };
}
