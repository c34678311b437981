import { type Logger, silentLogger } from "../base/logger.js";
import { withoutPayload } from "../base/redact.js";
import { LeaseLostError } from "../queue/lease-lost-error.js";
import type { QueueMessage } from "../queue/message.js";
import type { OwnerToken } from "../queue/owner-token.js";
import type { DispatchStore } from "../queue/work-store.js";
import type { DispatcherConfig } from "./dispatcher.js";
import { finished, type Handled, type Handling, handleMessage, type Surroundings } from "./handle-message.js";
import { describeThrown, type HandlingEnd } from "./settlement.js";
import type { TopicRecord } from "./topic-records.js";

/** What became of a message that was started. */
export type Outcome =
  | { readonly kind: "ended"; readonly end: HandlingEnd }
  /** Its transaction has acknowledged it. */
  | { readonly kind: "acked" }
  /** No transaction was to be had, so the handler was not even called. Without a cause, there was no time for it. */
  | { readonly kind: "notBegun"; readonly cause: unknown }
  /** The lease is gone: whatever came of it, it is not ours to settle. */
  | { readonly kind: "lost" };

/** Of nearly all of them, so made once. */
const endedWell: Outcome = { kind: "ended", end: finished.end };

export interface InFlight<Message, Tx> {
  readonly size: number;
  has(message: Message): boolean;
  hasSuspect(): boolean;
  /** Those whose lease is still ours. */
  held(): readonly Message[];
  /** Answers the time at which the handler returned, or gave the thread back. */
  start(message: Message, record: TopicRecord<Message, Tx>, now: number): number;
  loseLease(message: Message): void;
  /** Tells all handlers to stop. */
  abortAll(): void;
  /** Decides the end of those that have not stopped; what they still do is not waited for. */
  giveUpAll(): void;
}

interface Entry<Message, Tx> extends Handling<Message, Tx> {
  readonly record: TopicRecord<Message, Tx>;
  readonly startedAt: number;
  /** Among those that run. */
  place: number;
  abort: AbortController | undefined;
  /** Ends its transaction. */
  transaction: AbortController | undefined;
  /** Its handler was called. */
  begun: boolean;
  /** Why it was told to stop. */
  reason: Error | undefined;
  lost: boolean;
  ended: boolean;
}

/** The messages whose handlers run, each to exactly one outcome. */
export function inFlight<Message extends QueueMessage, Tx>(
  store: DispatchStore<Message, Tx>,
  owner: OwnerToken,
  config: DispatcherConfig<Message, Tx>,
  logger: Logger,
  onOutcome: (message: Message, record: TopicRecord<Message, Tx>, outcome: Outcome) => void,
): InFlight<Message, Tx> {
  // Few at a time and many in a run: in a Map, every rehash would leave a table behind that keeps the next one, and
  // with it finished messages, from being collected young.
  const running: Entry<Message, Tx>[] = [];
  let suspects = 0;
  // Not even the fields are put together for nobody.
  const log = logger === silentLogger ? undefined : logger;
  const { metrics } = config;

  const find = (message: Message): Entry<Message, Tx> | undefined => {
    for (const entry of running) if (entry.message.seq === message.seq) return entry;
    return undefined;
  };

  const remove = (entry: Entry<Message, Tx>): void => {
    const last = running.pop()!;
    if (last === entry) return;
    running[entry.place] = last;
    last.place = entry.place;
  };

  const signalOf = (entry: Entry<Message, Tx>): AbortSignal => {
    entry.abort ??= new AbortController();
    if (entry.reason !== undefined) entry.abort.abort(entry.reason);
    return entry.abort.signal;
  };

  const abort = (entry: Entry<Message, Tx>, reason: Error): void => {
    entry.reason ??= reason;
    entry.abort?.abort(entry.reason);
  };

  const fieldsOf = (message: Message) => ({
    topic: message.topic,
    ...config.describe(message),
    attempt: message.attempt,
  });

  /** The handler's writes and the acknowledgement commit together, or the lease is lost and nothing does. */
  const inTransaction = async (entry: Entry<Message, Tx>, work: (tx: Tx) => Promise<void>): Promise<void> => {
    entry.begun = false;
    entry.transaction = new AbortController();
    const { signal } = entry.transaction;
    try {
      await store.transaction(
        async (tx) => {
          entry.begun = true;
          await work(tx);
          const { lost } = await store.ack(owner, [entry.message], { tx });
          if (lost.length > 0) throw new LeaseLostError();
        },
        { signal },
      );
    } catch (error) {
      throw entry.begun ? error : new NotBegunError(error);
    }
  };

  /** A handler that does not stop must not keep a connection, or the only writer, from everyone after it. */
  const endTransaction = (entry: Entry<Message, Tx>): void =>
    entry.transaction?.abort(new DOMException("The handler's time was up.", "TimeoutError"));

  const around: Surroundings<Message, Tx, Entry<Message, Tx>> = {
    middleware: config.middleware,
    store: store.id,
    signalOf,
    inTransaction,
    endTransaction,
  };

  /** What a handler throws after it was told to stop is our doing, and is reported as that. */
  const endOf = ({ reason }: Entry<Message, Tx>, { end }: Handled): HandlingEnd => {
    if (end.kind !== "error" || reason === undefined) return end;
    return reason instanceof LeaseLostError ? { kind: "error", error: reason } : { kind: "cutOff" };
  };

  const onHandled = (entry: Entry<Message, Tx>, handled: Handled): number => {
    const end = endOf(entry, handled);
    const { topic, durations } = entry.record;
    const now = performance.now();
    const tookMs = now - entry.startedAt;
    // One that failed says nothing of those that do not.
    if (end.kind === "ok" || end.kind === "timedOut") durations.add(tookMs);
    metrics?.duration("oncebox.handler.duration", tookMs, { topic, outcome: end.kind });
    if (!entry.ended) conclude(entry, end, handled.acked);
    return now;
  };

  const conclude = (entry: Entry<Message, Tx>, end: HandlingEnd, acked: boolean): void => {
    const { message, record } = entry;
    entry.ended = true;
    remove(entry);
    record.running--;
    if (message.afterCrash) suspects--;
    // It would have taken at least so long; with less it need not be tried again.
    if (end.kind === "cutOff") record.durations.add(performance.now() - entry.startedAt);
    report(message, end);
    onOutcome(message, record, outcomeOf(entry, end, acked));
  };

  const outcomeOf = ({ lost }: Entry<Message, Tx>, end: HandlingEnd, acked: boolean): Outcome => {
    const error = end.kind === "error" ? end.error : undefined;
    if (lost || error instanceof LeaseLostError) return { kind: "lost" };
    if (error instanceof NotBegunError) return { kind: "notBegun", cause: error.cause };
    if (acked) return { kind: "acked" };
    return end === finished.end ? endedWell : { kind: "ended", end };
  };

  const report = (message: Message, end: HandlingEnd): void => {
    metrics?.count("oncebox.handled", 1, { topic: message.topic, outcome: end.kind });
    if (log === undefined || end.kind === "ok") return;
    const fields = fieldsOf(message);
    if (end.kind === "noHandler") log.warn("no handler for this topic", fields);
    else if (end.kind === "error" && end.error instanceof NotBegunError)
      log.error("no transaction could be begun", { ...fields, error: end.error.message });
    else if (end.kind === "error") {
      const error = withoutPayload(describeThrown(end.error), message.payload);
      log.error("handler failed", { ...fields, error });
    } else log.error("handler did not finish in time", { ...fields, end: end.kind });
  };

  return {
    get size() {
      return running.length;
    },
    has: (message) => find(message) !== undefined,
    hasSuspect: () => suspects > 0,
    held: () => running.filter((entry) => !entry.lost).map((entry) => entry.message),
    start(message, record, now) {
      const entry: Entry<Message, Tx> = {
        message,
        handler: record.handler,
        record,
        startedAt: now,
        place: running.length,
        abort: undefined,
        transaction: undefined,
        begun: true,
        reason: undefined,
        lost: false,
        ended: false,
      };
      running.push(entry);
      record.running++;
      if (message.afterCrash) suspects++;
      log?.info("handle", fieldsOf(message));
      const handled = handleMessage(entry, around);
      if (!(handled instanceof Promise)) return onHandled(entry, handled);
      void handled.then((result) => onHandled(entry, result));
      return performance.now();
    },
    loseLease(message) {
      const entry = find(message);
      if (entry === undefined) return;
      entry.lost = true;
      abort(entry, new LeaseLostError());
    },
    abortAll() {
      const reason = new DOMException("The function's time is up.", "TimeoutError");
      for (const entry of running) abort(entry, reason);
    },
    giveUpAll() {
      for (const entry of [...running]) {
        endTransaction(entry);
        const end: HandlingEnd = entry.begun
          ? { kind: "cutOff" }
          : { kind: "error", error: new NotBegunError(undefined) };
        conclude(entry, end, false);
      }
    },
  };
}

/** No transaction was to be had, so the handler did not run. */
class NotBegunError extends Error {
  override readonly name = "NotBegunError";

  constructor(cause: unknown) {
    super(cause === undefined ? "There was no time left." : describeThrown(cause), { cause });
  }
}
