import { omitUndefined } from "../base/defined.js";
import { safeReason } from "../base/logger.js";
import {
  errorType,
  inSpan,
  processSpan,
  type SpanEnd,
  type SpanStart,
  type Telemetry,
} from "../base/telemetry.js";
import { InvalidOperationError } from "../errors.js";
import { LeaseLostError } from "../queue/leases.js";
import { parsed, type QueueMessage } from "../queue/message.js";
import { describeIssues, type StandardSchema } from "../queue/standard-schema.js";
import type { DispatchStore } from "../queue/work-store.js";
import type {
  BeginHandlerTransaction,
  BeginOptions,
  HandlerContext,
  RanInTransaction,
  TopicHandler,
} from "./handlers.js";
import { describeKey, type HeldMessage, type LeasedRunParts } from "./held-messages.js";
import {
  type HandlingEnd,
  PermanentFailure,
  permanentFailure,
  RetryAfter,
  withOwnText,
} from "./settlement.js";

/** Wraps every handler: `(message, context, next) => …`. The first is the outermost. */
export type HandlerMiddleware<Message, Tx = unknown> = (
  message: Message,
  context: HandlerContext<Tx>,
  next: () => Promise<unknown>,
) => Promise<unknown>;

/** Handles one message to its end, in a span where there is tracing. Never throws or rejects. */
export function handleMessage(run: LeasedRunParts, held: HeldMessage): HandlingEnd | Promise<HandlingEnd> {
  const { tracing } = run.config;
  if (tracing === undefined) return handle(run, held);
  return inSpan(tracing, spanOf(run.store, held.message), () => handle(run, held), spanEndOf);
}

/** The span is a child of the one that enqueued the message. */
function spanOf({ id, queue }: DispatchStore<QueueMessage>, message: QueueMessage): SpanStart {
  const { topic, correlationId, attempt, headers } = message;
  const { source, messageId } = describeKey(message);
  const attributes = omitUndefined({
    "messaging.message.id": messageId ?? undefined,
    "messaging.message.conversation_id": correlationId ?? undefined,
    "oncebox.queue": queue,
    "oncebox.store": id,
    "oncebox.source": source ?? undefined,
    "oncebox.attempt": attempt,
  });
  return processSpan(topic, headers, attributes);
}

function spanEndOf(end: HandlingEnd): SpanEnd {
  if (end.kind === "ok") return {};
  return { error: end.kind === "error" ? errorType(end.error) : end.kind };
}

/** Returns no promise for a plain handler that returns none: with fast handlers, promises would be most of the cost. */
function handle(run: LeasedRunParts, held: HeldMessage): HandlingEnd | Promise<HandlingEnd> {
  const { message, topic } = held;
  const { handler } = topic;
  if (handler === undefined) {
    const onUnhandled = run.config.topics.unhandled(topic, message);
    return onUnhandled === "ignore"
      ? { kind: "ignored" }
      : { kind: "noHandler", topic: message.topic, onUnhandled };
  }
  if (run.config.middleware.length > 0 || handler.schema !== undefined || handler.transactional)
    return handleWithin(run, held, handler);
  try {
    const result = handler.handle(message, contextOf(run, held, undefined));
    return isThenable(result) ? Promise.resolve(result).then(endOf, thrown) : endOf(result);
  } catch (error) {
    return thrown(error);
  }
}

const isThenable = (result: unknown): boolean =>
  typeof (result as { then?: unknown } | null | undefined)?.then === "function";

const endOf = (result: unknown): HandlingEnd =>
  isFailure(result) ? thrown(result) : { kind: "ok", isAcked: false };

const thrown = (error: unknown): HandlingEnd => ({ kind: "error", error });

const isFailure = (result: unknown): boolean =>
  result instanceof PermanentFailure || result instanceof RetryAfter;

const contextOf = ({ store, config }: LeasedRunParts, held: HeldMessage, tx: unknown): HandlerContext =>
  new LazyContext(store.id, tx, config.telemetry, held);

/**
 * The signal is made when it is first read, and is an own property, so that `{ ...context }` copies it. All contexts have one
 * getter: each object literal with a getter has a hidden class of its own, which costs a fifth of a dispatcher's CPU time.
 */
class LazyContext {
  static readonly #signal = {
    enumerable: true,
    get(this: LazyContext): AbortSignal {
      return this.#held.abort.signal;
    },
  };
  declare readonly signal: AbortSignal;
  readonly #held: HeldMessage;

  constructor(
    readonly store: string,
    readonly tx: unknown,
    readonly telemetry: Telemetry | undefined,
    held: HeldMessage,
  ) {
    this.#held = held;
    Object.defineProperty(this, "signal", LazyContext.#signal);
  }
}

/** With everything that a handler can have around it: a schema, middleware, a transaction. */
async function handleWithin(
  run: LeasedRunParts,
  held: HeldMessage,
  handler: TopicHandler,
): Promise<HandlingEnd> {
  const { schema, transactional = false } = handler;
  const attempt = async (message: QueueMessage, tx: unknown): Promise<void> => {
    const context = contextOf(run, held, tx);
    const chain = run.config.middleware.reduceRight<() => Promise<unknown>>(
      (next, wrap) => () => wrap(message, context, next),
      async () => handler.handle(message, context),
    );
    const result = await chain();
    if (isFailure(result)) throw result;
    // The run has already settled this message as failed. Committing now would apply its writes and retry it too.
    if (transactional) context.signal.throwIfAborted();
  };
  try {
    const message = schema === undefined ? held.message : await withData(held.message, schema);
    if (transactional) await inHandlerTransaction(run, held, (tx) => attempt(message, tx));
    else await attempt(message, undefined);
    return { kind: "ok", isAcked: transactional };
  } catch (error) {
    return thrown(error);
  }
}

/** The message with its payload parsed and validated. An invalid payload stays invalid, so no retry can help. */
async function withData(message: QueueMessage, schema: StandardSchema): Promise<QueueMessage> {
  const { topic, payload } = message;
  const result = await schema["~standard"].validate(parsed(topic, payload));
  if (result.issues === undefined) return { ...message, data: result.value };
  const issues = describeIssues(result.issues, payload);
  throw withOwnText(permanentFailure(`The payload of "${topic}" does not fit its schema: ${issues}`));
}

/** No transaction could be begun, so the handler was not called. Without a cause, there was no time for it. */
export class NotCalledError extends Error {
  override readonly name = "NotCalledError";

  constructor(cause?: unknown) {
    super(cause === undefined ? "There was no time left." : safeReason(cause), { cause });
  }
}

/** Commits the handler's writes together with the acknowledgement. If the lease is lost, nothing is committed. */
async function inHandlerTransaction(
  { store, config, leases }: LeasedRunParts,
  held: HeldMessage,
  work: (tx: unknown) => Promise<void>,
): Promise<void> {
  held.transactionAbort = new AbortController();
  const { signal } = held.transactionAbort;
  const handleAndAck = async (tx: unknown, own: unknown): Promise<void> => {
    signal.throwIfAborted(); // the run has given it up while it waited for its transaction
    held.isCalled = true;
    held.isAcking = false;
    // It may have waited for its transaction longer than its lease, in a process that was frozen meanwhile.
    if (performance.now() >= held.lease.expiresAt) throw new LeaseLostError();
    await work(own);
    held.isAcking = true;
    leases.renewApart([held]); // the acknowledgement locks its row until the commit
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
async function inOwnTransaction(
  begin: BeginHandlerTransaction<unknown, unknown>,
  work: (tx: unknown, own: unknown) => Promise<void>,
  options: BeginOptions,
): Promise<void> {
  let ran: object | undefined;
  let failure: { readonly error: unknown } | undefined;
  const returned: unknown = await begin(async <Own>(tx: unknown, own: Own) => {
    ran = undefined;
    failure = undefined;
    try {
      await work(tx, own);
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
export function endHandlerTransaction({ transactionAbort }: HeldMessage): void {
  transactionAbort?.abort(new DOMException("The handler's time was up.", "TimeoutError"));
}
