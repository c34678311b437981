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
import { InvalidArgumentError, InvalidOperationError, PayloadNotJsonError } from "../errors.js";
import { LeaseLostError } from "../queue/leases.js";
import { parsed, type QueueMessage } from "../queue/message.js";
import { describeIssues, type StandardSchema } from "../queue/standard-schema.js";
import { schemaOf } from "../queue/topics.js";
import type { DispatchStore, PreparedMessages } from "../queue/work-store.js";
import type {
  BeginHandlerTransaction,
  BeginOptions,
  HandlerContext,
  HandlerResult,
  RanInTransaction,
  TopicHandler,
} from "./handlers.js";
import { describeKey, type HeldMessage, type LeasedRunParts } from "./held-messages.js";
import { holdsMessages, preparedMessages } from "./returned-messages.js";
import {
  type HandlingEnd,
  PermanentFailure,
  permanentFailure,
  RetryAfter,
  withOwnText,
} from "./settlement.js";

/** What middleware gets beside the message: the context of the handler that it wraps. */
export interface MiddlewareContext<Tx = unknown> extends HandlerContext {
  /** The handler's transaction; undefined without `transactional: true`. */
  readonly tx: Tx | undefined;
}

/**
 * Wraps every handler: `(message, context, next) => …`. The first is the outermost. What the handler returned counts, unless the
 * middleware returns something else: null for nothing.
 */
export type HandlerMiddleware<Message, Tx = unknown> = (
  message: Message,
  context: MiddlewareContext<Tx>,
  next: () => Promise<HandlerResult>,
) => Promise<HandlerResult>;

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
  const schema = handler.schema ?? schemaOf(run.store.topics, message.topic);
  if (run.config.middleware.length > 0 || schema !== undefined || handler.transactional)
    return handleWithin(run, held, handler, schema);
  try {
    const result: unknown = handler.handle(message, contextOf(run, held, undefined));
    if (result === undefined) return ok;
    return isThenable(result)
      ? Promise.resolve(result).then((value) => endOf(run, held, value), thrown)
      : endOf(run, held, result);
  } catch (error) {
    return thrown(error);
  }
}

const isThenable = (result: unknown): boolean =>
  typeof (result as { then?: unknown } | null | undefined)?.then === "function";

const ok: HandlingEnd = { kind: "ok", isAcked: false };

/** Most handlers return nothing. */
function endOf(run: LeasedRunParts, held: HeldMessage, result: unknown): HandlingEnd | Promise<HandlingEnd> {
  if (result === undefined || result === null) return ok;
  if (isFailure(result)) return thrown(result);
  try {
    const outgoing = returned(run, held, result);
    if (outgoing === undefined) return ok;
    return outgoing instanceof Promise ? outgoing.then(sending, thrown) : sending(outgoing);
  } catch (error) {
    return thrown(error);
  }
}

const sending = (outgoing: PreparedMessages): HandlingEnd => ({ kind: "ok", isAcked: false, outgoing });

/**
 * The messages that a handler returned. A wrong one makes the handled message dead: a retry would repeat what the handler did, and fail
 * again. Any other result, such as a driver's, is ignored.
 */
function returned(
  { config, outbox, logger }: LeasedRunParts,
  { message: handled, topic }: HeldMessage,
  result: unknown,
): PreparedMessages | Promise<PreparedMessages> | undefined {
  if (!holdsMessages(result)) {
    if (Array.isArray(result) && result.length === 0) return undefined;
    if (config.warnedOf.has(topic.name)) return undefined;
    config.warnedOf.add(topic.name);
    logger.warn("what the handler returned is no message and is ignored", { topic: topic.name });
    return undefined;
  }
  const refuse = (error: unknown): never => {
    throw withOwnText(
      permanentFailure(`The handler of "${handled.topic}" returned a wrong message: ${wrongReason(error)}`, {
        cause: error,
      }),
    );
  };
  if (outbox === undefined)
    return refuse(
      new InvalidArgumentError(
        "there is no outbox to store it in. Pass it: createDispatcher({ outbox, … }).",
      ),
    );
  try {
    const prepared = preparedMessages(result, { handled, outbox });
    return prepared instanceof Promise ? prepared.catch(refuse) : prepared;
  } catch (error) {
    return refuse(error);
  }
}

/** The text of another error, of a getter or a `toJSON`, may have anything in it. */
const wrongReason = (error: unknown): string =>
  error instanceof InvalidArgumentError || error instanceof PayloadNotJsonError
    ? error.message
    : "it cannot be read. See the cause in the log.";

const thrown = (error: unknown): HandlingEnd => ({ kind: "error", error });

const isFailure = (result: unknown): boolean =>
  result instanceof PermanentFailure || result instanceof RetryAfter;

const contextOf = ({ store, config }: LeasedRunParts, held: HeldMessage, tx: unknown): MiddlewareContext =>
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
  schema: StandardSchema | undefined,
): Promise<HandlingEnd> {
  const { transactional = false } = handler;
  const attempt = async (message: QueueMessage, tx: unknown): Promise<PreparedMessages | undefined> => {
    const context = contextOf(run, held, tx);
    const chain = run.config.middleware.reduceRight<() => Promise<HandlerResult>>(
      (next, wrap) => () => wrapped(next, (inner) => wrap(message, context, inner)),
      async () => handler.handle(message, context),
    );
    const end = await endOf(run, held, await chain());
    if (end.kind === "error") throw end.error;
    // The run has already settled this message as failed. Committing now would apply its writes and retry it too.
    if (transactional) context.signal.throwIfAborted();
    return end.kind === "ok" ? end.outgoing : undefined;
  };
  try {
    const message = schema === undefined ? held.message : await withData(held.message, schema);
    if (transactional) {
      await inHandlerTransaction(run, held, (tx) => attempt(message, tx));
      return { kind: "ok", isAcked: true };
    }
    const outgoing = await attempt(message, undefined);
    return outgoing === undefined ? ok : sending(outgoing);
  } catch (error) {
    return thrown(error);
  }
}

/** What is returned inside must not be lost because a middleware returns nothing. */
async function wrapped(
  next: () => Promise<HandlerResult>,
  wrap: (inner: () => Promise<HandlerResult>) => Promise<HandlerResult>,
): Promise<HandlerResult> {
  let returnedInside: HandlerResult;
  const own = await wrap(async () => {
    returnedInside = undefined;
    returnedInside = await next();
    return returnedInside;
  });
  return own === undefined ? returnedInside : own;
}

/** The message with its payload parsed and validated. An invalid payload stays invalid, so no retry can help. */
export async function withData(message: QueueMessage, schema: StandardSchema): Promise<QueueMessage> {
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

/** Commits the handler's writes, the acknowledgement and what is sent because of it together. If the lease is lost, nothing is committed. */
async function inHandlerTransaction(
  { store, config, leases }: LeasedRunParts,
  held: HeldMessage,
  work: (tx: unknown) => Promise<PreparedMessages | undefined>,
): Promise<void> {
  held.transactionAbort = new AbortController();
  const { signal } = held.transactionAbort;
  const handleAndAck = async (tx: unknown, own: unknown): Promise<void> => {
    signal.throwIfAborted(); // the run has given it up while it waited for its transaction
    held.isCalled = true;
    held.isAcking = false;
    // It may have waited for its transaction longer than its lease, in a process that was frozen meanwhile.
    if (performance.now() >= held.lease.expiresAt) throw new LeaseLostError();
    const outgoing = await work(own);
    held.isAcking = true;
    leases.renewApart([held]); // the acknowledgement locks its row until the commit
    const { message } = held;
    const acknowledged = outgoing === undefined ? message : { message, outgoing };
    const { lost } = await store.ack(held.lease.owner, [acknowledged], { tx });
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
