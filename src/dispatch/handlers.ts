import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown, requireDuration, requireName } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import { type RetryPolicy, retryPolicy } from "../queue/retry-policy.js";
import type { StandardSchema } from "../queue/standard-schema.js";

export interface HandlerContext<Tx = unknown> {
  /** Fires when the handler's or the function's time is nearly up, or the lease is lost: stop, and lose nothing by it. */
  readonly signal: AbortSignal;
  /** The transaction that also holds the acknowledgement; only with `transactional: true`. */
  readonly tx: Tx | undefined;
  /** The store the message is from. */
  readonly store: string;
}

/** Resolve to acknowledge; throw to retry. Throw or return `permanentFailure` or `retryAfter` to steer. */
export type HandlerFunction<Message, Tx = unknown> = (
  message: Message,
  context: HandlerContext<Tx>,
) => unknown;

export interface TopicOptions {
  /** A handler that takes longer is abandoned; none by default but the function's own end. */
  readonly timeoutMs?: number;
  /** At most so many of this topic at once, within the dispatcher's own bound. */
  readonly concurrency?: number;
  /** A longer lease than the dispatcher's, for work that cannot be renewed in time. */
  readonly leaseMs?: number;
  /** Attempts and back-off of this topic. */
  readonly retry?: Partial<RetryPolicy>;
  /** Run in a transaction with the acknowledgement: `context.tx`. A worker that lost its lease cannot commit. */
  readonly transactional?: boolean;
}

export interface HandlerDefinition<Message, Tx = unknown> extends TopicOptions {
  /** Parses the payload as JSON and checks it; a message that does not fit is dead, with the path named. */
  readonly schema?: StandardSchema;
  readonly handle: HandlerFunction<Message & { readonly data?: unknown }, Tx>;
}

export type Handlers<Message, Tx = unknown> = Readonly<
  Record<string, HandlerFunction<Message, Tx> | HandlerDefinition<Message, Tx>>
>;

/** A handler whose message has its payload, checked and typed by a schema, as `data`. */
export function typedHandler<Data, Message extends QueueMessage = QueueMessage, Tx = unknown>(
  schema: StandardSchema<Data>,
  handle: HandlerFunction<Message & { readonly data: Data }, Tx>,
  options: TopicOptions = {},
): HandlerDefinition<Message, Tx> {
  return { ...options, schema, handle: handle as HandlerDefinition<Message, Tx>["handle"] };
}

export interface ResolvedHandler<Message, Tx> extends Omit<HandlerDefinition<Message, Tx>, "retry"> {
  readonly topic: string;
  /** The topic's own, or the dispatcher's; undefined leaves it to the store. */
  readonly retry: RetryPolicy | undefined;
}

const known = ["handle", "schema", "timeoutMs", "concurrency", "leaseMs", "retry", "transactional"];

/** Checks every handler when the dispatcher is made. Topics are case-sensitive. */
export function resolveHandlers<Message, Tx>(
  handlers: Handlers<Message, Tx>,
  defaultRetry: RetryPolicy | undefined,
): ReadonlyMap<string, ResolvedHandler<Message, Tx>> {
  const resolved = new Map<string, ResolvedHandler<Message, Tx>>();
  for (const [topic, entry] of Object.entries(handlers)) {
    requireName(topic, "a handler's topic");
    const definition = typeof entry === "function" ? { handle: entry } : entry;
    refuseUnknown(definition, known, `handler of "${topic}"`);
    if (typeof definition.handle !== "function") {
      throw new InvalidArgumentError(
        `The handler of "${topic}" needs a function: { handle(message, context) { … } }.`,
      );
    }
    if (definition.timeoutMs !== undefined) requireDuration(definition.timeoutMs, `timeoutMs of "${topic}"`);
    if (definition.leaseMs !== undefined) requireDuration(definition.leaseMs, `leaseMs of "${topic}"`);
    if (
      definition.concurrency !== undefined &&
      !(Number.isInteger(definition.concurrency) && definition.concurrency > 0)
    ) {
      throw new InvalidArgumentError(`concurrency of "${topic}" must be a whole number from 1 on.`);
    }
    const retry =
      definition.retry === undefined ? defaultRetry : retryPolicy({ ...defaultRetry, ...definition.retry });
    resolved.set(topic, { ...definition, topic, retry } as ResolvedHandler<Message, Tx>);
  }
  return resolved;
}
