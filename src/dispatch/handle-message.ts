import { omitUndefined } from "../base/defined.js";
import { safeReason } from "../base/logger.js";
import {
  errorType,
  inSpan,
  processSpan,
  type SpanEnd,
  type SpanStart,
  type Telemetry,
  type Tracing,
} from "../base/telemetry.js";
import { InvalidOperationError } from "../errors.js";
import { LeaseLostError } from "../queue/leases.js";
import { parsed, type QueueMessage } from "../queue/message.js";
import { describeIssues } from "../queue/standard-schema.js";
import type { DispatchStore } from "../queue/work-store.js";
import type { DispatcherConfig } from "./dispatcher.js";
import type {
  BeginHandlerTransaction,
  BeginOptions,
  HandlerContext,
  RanInTransaction,
  ResolvedHandler,
  TopicPlan,
} from "./handlers.js";
import type { HeldMessage } from "./held-messages.js";
import {
  type HandlingEnd,
  PermanentFailure,
  permanentFailure,
  RetryAfter,
  withOwnText,
} from "./settlement.js";

/**
 * What a handler gets beside its message. The signal is made when it is first read: an AbortController costs more than
 * all the rest of a fast message, and most handlers never read it. It is an own property, so that `{ ...context }` copies
 * it. All contexts have one getter, because an object literal with a getter would get a hidden class of its own, which
 * keeps the message alive until a full collection.
 */
class LazyContext<Tx, Of> {
  declare readonly signal: AbortSignal;
  readonly tx: Tx | undefined;
  readonly store: string;
  readonly telemetry: Telemetry | undefined;
  readonly #of: Of;
  readonly #signalOf: (of: Of) => AbortSignal;

  constructor(
    store: string,
    tx: Tx | undefined,
    of: Of,
    signalOf: (of: Of) => AbortSignal,
    telemetry: Telemetry | undefined,
  ) {
    this.tx = tx;
    this.store = store;
    this.telemetry = telemetry;
    this.#of = of;
    this.#signalOf = signalOf;
    Object.defineProperty(this, "signal", LazyContext.#signal);
  }

  static readonly #signal = {
    enumerable: true,
    get(this: LazyContext<unknown, unknown>): AbortSignal {
      return this.#signalOf(this.#of);
    },
  };
}

export const handlerContext = <Tx, Of>(
  store: string,
  tx: Tx | undefined,
  of: Of,
  signalOf: (of: Of) => AbortSignal,
  telemetry?: Telemetry,
): HandlerContext<Tx> => new LazyContext(store, tx, of, signalOf, telemetry);

/** Wraps every handler: `(message, context, next) => …`. The first is the outermost. */
export type HandlerMiddleware<Message, Tx = unknown> = (
  message: Message,
  context: HandlerContext<Tx>,
  next: () => Promise<unknown>,
) => Promise<unknown>;

export interface Handled {
  readonly end: HandlingEnd;
  /** The handler's transaction has acknowledged the message. */
  readonly isAcked: boolean;
}

const finished: Handled = { end: { kind: "ok" }, isAcked: false };
const committed: Handled = { end: { kind: "ok" }, isAcked: true };
const thrown = (error: unknown): Handled => ({ end: { kind: "error", error }, isAcked: false });

/** What the handling of messages needs of their run. */
export interface HandlingHost<Message extends QueueMessage, Tx> {
  readonly store: DispatchStore<Message, Tx>;
  readonly config: DispatcherConfig<Message, Tx>;
  /** A handler's transaction is about to acknowledge the message, and locks its row until the commit. */
  readonly beforeAck: (held: HeldMessage<Message, Tx>) => void;
}

/**
 * Handles one message to its end. Never throws or rejects. It returns no promise for a plain handler that returns none: with
 * fast handlers, promises would be most of the cost.
 */
export function handleMessage<Message extends QueueMessage, Tx>(
  run: HandlingHost<Message, Tx>,
  held: HeldMessage<Message, Tx>,
): Handled | Promise<Handled> {
  const { message, topic } = held;
  const { handler } = topic;
  if (handler === undefined) return withoutHandler(message.topic, topic.onUnhandled);
  if (run.config.middleware.length > 0 || handler.schema !== undefined || handler.transactional)
    return handleWithin(run, held, handler);
  try {
    const result = handler.handle(message, contextOf(run, held, undefined));
    return isThenable(result) ? Promise.resolve(result).then(handledBy, thrown) : handledBy(result);
  } catch (error) {
    return thrown(error);
  }
}

function withoutHandler(topic: string, onUnhandled: TopicPlan<unknown, unknown>["onUnhandled"]): Handled {
  const end: HandlingEnd =
    onUnhandled === "ignore" ? { kind: "ignored" } : { kind: "noHandler", topic, onUnhandled };
  return { end, isAcked: false };
}

const isThenable = (result: unknown): boolean =>
  typeof (result as { then?: unknown } | null | undefined)?.then === "function";

const handledBy = (result: unknown): Handled => (isFailureResult(result) ? thrown(result) : finished);

const isFailureResult = (result: unknown): boolean =>
  result instanceof PermanentFailure || result instanceof RetryAfter;

const contextOf = <Message extends QueueMessage, Tx>(
  { store, config }: HandlingHost<Message, Tx>,
  held: HeldMessage<Message, Tx>,
  tx: Tx | undefined,
): HandlerContext<Tx> =>
  handlerContext<Tx, HeldMessage<Message, Tx>>(store.id, tx, held, signalOf, config.telemetry);

/** Fires at the handler's time-out, at the function's end, or when the lease is lost. */
function signalOf<Message, Tx>(held: HeldMessage<Message, Tx>): AbortSignal {
  held.handlerAbort ??= new AbortController();
  if (held.abortReason !== undefined) held.handlerAbort.abort(held.abortReason);
  return held.handlerAbort.signal;
}

/** With everything that a handler can have around it: a schema, middleware, a transaction. */
async function handleWithin<Message extends QueueMessage, Tx>(
  run: HandlingHost<Message, Tx>,
  held: HeldMessage<Message, Tx>,
  handler: ResolvedHandler<Message, Tx>,
): Promise<Handled> {
  const attempt = async (message: Message, tx: Tx | undefined): Promise<void> => {
    const context = contextOf(run, held, tx);
    const chain = run.config.middleware.reduceRight<() => Promise<unknown>>(
      (next, wrap) => () => wrap(message, context, next),
      async () => handler.handle(message, context),
    );
    const result = await chain();
    if (isFailureResult(result)) throw result;
    // The run has already settled this message as failed. Committing now would apply its writes and retry it too.
    if (handler.transactional) context.signal.throwIfAborted();
  };
  try {
    const message = handler.schema === undefined ? held.message : await withData(held.message, handler);
    if (!handler.transactional) await attempt(message, undefined);
    else await inHandlerTransaction(run, held, (tx) => attempt(message, tx));
    return handler.transactional ? committed : finished;
  } catch (error) {
    return thrown(error);
  }
}

/** The message with its payload parsed and validated. An invalid payload stays invalid, so no retry can help. */
async function withData<Message extends QueueMessage, Tx>(
  message: Message,
  handler: ResolvedHandler<Message, Tx>,
): Promise<Message & { data: unknown }> {
  const result = await handler.schema!["~standard"].validate(parsed(message.topic, message.payload));
  if (result.issues !== undefined) {
    const issues = describeIssues(result.issues, message.payload);
    throw withOwnText(
      permanentFailure(`The payload of "${message.topic}" does not fit its schema: ${issues}`),
    );
  }
  return { ...message, data: result.value };
}

/** No transaction could be begun, so the handler was not called. Without a cause, there was no time for it. */
export class NotCalledError extends Error {
  override readonly name = "NotCalledError";

  /** For the log. */
  readonly reason: string;

  constructor(cause?: unknown) {
    const reason = cause === undefined ? "There was no time left." : safeReason(cause);
    super(reason, { cause });
    this.reason = reason;
  }
}

/** Commits the handler's writes together with the acknowledgement. If the lease is lost, nothing is committed. */
async function inHandlerTransaction<Message extends QueueMessage, Tx>(
  run: HandlingHost<Message, Tx>,
  held: HeldMessage<Message, Tx>,
  work: (tx: Tx) => Promise<void>,
): Promise<void> {
  const { store, config } = run;
  held.transactionAbort = new AbortController();
  const { signal } = held.transactionAbort;
  const handleAndAck = async (tx: Tx, own: Tx): Promise<void> => {
    signal.throwIfAborted(); // the run has given it up while it waited for its transaction
    held.isCalled = true;
    held.isAcking = false;
    // It may have waited for its transaction longer than its lease, in a process that was frozen meanwhile.
    if (performance.now() >= held.lease.expiresAt) throw new LeaseLostError();
    await work(own);
    held.isAcking = true;
    run.beforeAck(held);
    const { lost } = await store.ack(held.lease.owner, [held.message], { tx });
    if (lost.length > 0) throw new LeaseLostError();
  };
  try {
    if (config.begin === undefined) await store.transaction((tx) => handleAndAck(tx, tx), { signal });
    else await inOwnTransaction(config.begin, handleAndAck, { signal, store: store.id });
  } catch (error) {
    held.isAcking = false;
    throw held.isCalled ? error : new NotCalledError(error);
  }
}

/**
 * A transaction of the user's library cannot be rolled back from outside while its handler uses it: with some libraries, what
 * the handler does next would be committed by itself. So it ends when its handler does, and a handler that was given up cannot commit.
 */
async function inOwnTransaction<Tx>(
  begin: BeginHandlerTransaction<Tx, Tx>,
  work: (tx: Tx, own: Tx) => Promise<void>,
  options: BeginOptions,
): Promise<void> {
  let ran: object | undefined;
  let failure: { readonly error: unknown } | undefined;
  const returned: unknown = await begin(async <Own>(tx: Tx, own: Own) => {
    ran = undefined;
    failure = undefined;
    try {
      await work(tx, own as unknown as Tx);
    } catch (error) {
      failure = { error };
      throw error;
    }
    ran = {};
    return ran as RanInTransaction<Own>;
  }, options);
  if (failure !== undefined) throw failure.error;
  if (ran === undefined || returned !== ran)
    throw new InvalidOperationError(
      "createDispatcher: transaction must wait for work(tx, own) and return what it resolves to.",
    );
}

/** Rolls a transaction back whose handler does not stop: it must not keep a connection, or SQLite's only writer. */
export function endHandlerTransaction<Message, Tx>({ transactionAbort }: HeldMessage<Message, Tx>): void {
  transactionAbort?.abort(new DOMException("The handler's time was up.", "TimeoutError"));
}

/** Handles a message in a span, which is a child of the one that enqueued it. */
export const handleTraced = <Message extends QueueMessage, Tx>(
  run: HandlingHost<Message, Tx>,
  held: HeldMessage<Message, Tx>,
  tracing: Tracing,
): Promise<Handled> => inSpan(tracing, spanOf(run, held.message), () => handleMessage(run, held), spanEndOf);

function spanOf<Message extends QueueMessage, Tx>(
  { store, config }: HandlingHost<Message, Tx>,
  message: Message,
): SpanStart {
  const { topic, correlationId, attempt, headers } = message;
  const { source, messageId } = config.describe(message);
  const attributes = omitUndefined({
    "messaging.message.id": messageId ?? undefined,
    "messaging.message.conversation_id": correlationId ?? undefined,
    "oncebox.queue": store.queue,
    "oncebox.store": store.id,
    "oncebox.source": source ?? undefined,
    "oncebox.attempt": attempt,
  });
  return processSpan(topic, headers, attributes);
}

function spanEndOf({ end }: Handled): SpanEnd {
  if (end.kind === "ok") return {};
  return { error: end.kind === "error" ? errorType(end.error) : end.kind };
}
