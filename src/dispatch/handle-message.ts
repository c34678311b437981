import type { QueueMessage } from "../queue/message.js";
import { parsed } from "../queue/message-data.js";
import { describeIssues } from "../queue/standard-schema.js";
import { handlerContext } from "./handler-context.js";
import { inHandlerTransaction } from "./handler-transaction.js";
import type { HandlerContext, ResolvedHandler } from "./handlers.js";
import type { HeldMessage, RunState } from "./run-state.js";
import {
  type HandlingEnd,
  PermanentFailure,
  permanentFailure,
  RetryAfter,
  withOwnText,
} from "./settlement.js";
import type { TopicPlan } from "./topic-plans.js";

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

/**
 * Handles one message to its end. Never throws or rejects. It returns no promise for a plain handler that returns none: with
 * fast handlers, promises would be most of the cost.
 */
export function handleMessage<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
): Handled | Promise<Handled> {
  const { message, topic } = held;
  const { handler } = topic;
  if (handler === undefined) return withoutHandler(message.topic, topic.otherwise);
  if (run.config.middleware.length > 0 || handler.schema !== undefined || handler.transactional)
    return handleWithin(run, held, handler);
  try {
    const result = handler.handle(message, contextOf(run, held, undefined));
    return isThenable(result) ? Promise.resolve(result).then(handledBy, thrown) : handledBy(result);
  } catch (error) {
    return thrown(error);
  }
}

function withoutHandler(topic: string, otherwise: TopicPlan<unknown, unknown>["otherwise"]): Handled {
  const end: HandlingEnd =
    otherwise === "ignore" ? { kind: "ignored" } : { kind: "noHandler", topic, otherwise };
  return { end, isAcked: false };
}

const isThenable = (result: unknown): boolean =>
  typeof (result as { then?: unknown } | null | undefined)?.then === "function";

const handledBy = (result: unknown): Handled => (isFailureResult(result) ? thrown(result) : finished);

const isFailureResult = (result: unknown): boolean =>
  result instanceof PermanentFailure || result instanceof RetryAfter;

const contextOf = <Message extends QueueMessage, Tx>(
  { store, config }: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
  tx: Tx | undefined,
): HandlerContext<Tx> =>
  handlerContext<Tx, HeldMessage<Message, Tx>>(store.id, tx, held, signalOf, config.telemetry);

/** Fires at the handler's time-out, at the function's end, or when the lease is lost. */
function signalOf<Message, Tx>(held: HeldMessage<Message, Tx>): AbortSignal {
  held.abort ??= new AbortController();
  if (held.stopReason !== undefined) held.abort.abort(held.stopReason);
  return held.abort.signal;
}

/** With everything that a handler can have around it: a schema, middleware, a transaction. */
async function handleWithin<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
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
