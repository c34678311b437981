import { omitUndefined } from "../../src/base/defined.js";
import { newRun } from "../../src/dispatch/dispatch-run.js";
import { type DispatcherOptions, dispatcherConfig } from "../../src/dispatch/dispatcher.js";
import { type HeldMessage, type Lease, newHeld, type RunState } from "../../src/dispatch/run-state.js";
import { newOwnerToken, type QueueMessage } from "../../src/index.js";
import type { Abandonment, DispatchStore, Settlement } from "../../src/queue/work-store.js";

export type TestRunState = RunState<QueueMessage, unknown>;
export type TestHeld = HeldMessage<QueueMessage, unknown>;
export type TestStore = DispatchStore<QueueMessage>;

export const message = (seq: number, fields: Partial<QueueMessage> = {}): QueueMessage => ({
  seq,
  topic: "t",
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

/** A message that must be handled alone. */
export const suspect = (seq: number, fields: Partial<QueueMessage> = {}): QueueMessage =>
  message(seq, { crashes: 2, ...fields });

/** The lease of one claim. It ends after `leftMs`; renewing it is not due. */
export const lease = (leftMs = 60_000): Lease => ({
  owner: newOwnerToken(),
  leaseMs: 60_000,
  expiresAt: performance.now() + leftMs,
  renewAt: Number.POSITIVE_INFINITY,
  isRenewing: false,
});

export const held = (run: TestRunState, of: QueueMessage, under: Lease = lease()): TestHeld =>
  newHeld(of, run.topics.of(of.topic), under);

/** Puts a message where the starter would: its handler runs. */
export function running(run: TestRunState, of: QueueMessage, under?: Lease): TestHeld {
  const started = held(run, of, under);
  started.startedAt = performance.now();
  run.lastStartAt = started.startedAt;
  run.running.set(of.seq, started);
  started.topic.running++;
  if (of.partitionKey !== null) run.busyPartitions.add(of.partitionKey);
  return started;
}

export function waiting(run: TestRunState, of: QueueMessage, under?: Lease): TestHeld {
  const waits = held(run, of, under);
  run.waiting.push(waits);
  return waits;
}

export const seqsOf = (messages: Iterable<{ readonly message: QueueMessage }>): readonly number[] =>
  [...messages].map(({ message: { seq } }) => seq);

export interface StoreCall {
  readonly verb: "ack" | "abandon" | "fail" | "release" | "renew";
  readonly owner: string;
  readonly seqs: readonly number[];
}

/** A store without messages that records settlements and renewals. All of them succeed, except where a test says otherwise. */
export function recordingStore(calls: StoreCall[], instead: Partial<TestStore> = {}): TestStore {
  const all = (
    verb: StoreCall["verb"],
    owner: string,
    messages: readonly QueueMessage[],
  ): Promise<Settlement<unknown>> => {
    calls.push({ verb, owner, seqs: messages.map(({ seq }) => seq) });
    return Promise.resolve({ changed: messages, lost: [], dead: [] });
  };
  return {
    id: "s",
    claim: async () => [],
    ack: (owner, messages) => all("ack", owner, messages),
    abandon: (owner, items: readonly Abandonment<QueueMessage>[]) =>
      all(
        "abandon",
        owner,
        items.map((item) => item.message),
      ),
    fail: (owner, messages) => all("fail", owner, messages),
    release: (owner, messages) => all("release", owner, messages),
    renew: (owner, messages) => all("renew", owner, messages),
    transaction: (work) => work(undefined),
    ...instead,
  };
}

export interface TestRunOptions extends Partial<DispatcherOptions<QueueMessage>> {
  readonly store?: TestStore;
  /** What the run's budget has left: 60 s by default. It does not change by itself. */
  readonly remainingMs?: number;
  readonly signal?: AbortSignal;
  readonly onStuck?: () => void;
}

/** The state of a run whose budget keeps 100 ms as its reserve. */
export function testRun({
  store,
  remainingMs = 60_000,
  signal,
  onStuck,
  ...options
}: TestRunOptions = {}): TestRunState {
  const budget = { signal: signal ?? new AbortController().signal, remainingMs: () => remainingMs };
  const never = () => new Promise<never>(() => {});
  const config = dispatcherConfig<QueueMessage, unknown>({
    handlers: { t: never },
    reserveMs: 100,
    ...options,
  });
  return newRun(store ?? recordingStore([]), budget, config, omitUndefined({ onStuck }));
}

const isRenewing = ({ waiting, running: started, settling }: TestRunState): boolean =>
  [...waiting, ...started.values(), ...settling.values()].some(
    (one) => one.lease.isRenewing || one.later?.lease.isRenewing,
  );

/** Waits until the run has done what it does in the background. */
export async function untilQuiet(run: TestRunState): Promise<void> {
  while (run.isClaiming || run.isSettling || isRenewing(run)) await run.changed.next(10_000);
}
