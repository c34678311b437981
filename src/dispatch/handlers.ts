import type { Telemetry } from "../base/tracing.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown, requireDuration } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import { type RetryPolicy, retryPolicy } from "../queue/retry-policy.js";
import type { StandardSchema } from "../queue/standard-schema.js";
import { requirePattern, type TopicPattern } from "./topic-patterns.js";

export interface HandlerContext<Tx = unknown> {
  /** Fires when the handler's or the function's time is nearly up, or when the lease is lost. A handler that stops then loses nothing. */
  readonly signal: AbortSignal;
  /** The transaction that also holds the acknowledgement; only with `transactional: true`. */
  readonly tx: Tx | undefined;
  /** The store the message is from. */
  readonly store: string;
  /** The dispatcher's metrics and tracing, by which a publisher reports what it sends. */
  readonly telemetry?: Telemetry | undefined;
}

/** The context of a handler with `transactional: true`. */
export interface TransactionalContext<Tx = unknown> extends HandlerContext<Tx> {
  readonly tx: Tx;
}

/** Resolves to acknowledge the message, throws to retry it. Throw or return `permanentFailure` to make it dead at once, `retryAfter` to set the delay. */
export type HandlerFunction<Message, Tx = unknown> = (
  message: Message,
  context: HandlerContext<Tx>,
) => unknown;

export interface TopicOptions {
  /** A handler that takes longer is abandoned. By default the dispatcher's `timeoutMs`; without one, the function's end or the worker's `defaultTimeoutMs`. */
  readonly timeoutMs?: number;
  /** Handlers of this topic that may run at once, within the dispatcher's own limit. */
  readonly concurrency?: number;
  /** A longer lease than the dispatcher's, for handlers that block the event loop. */
  readonly leaseMs?: number;
  /** Attempts and back-off of this topic. */
  readonly retry?: Partial<RetryPolicy>;
}

interface CheckedTopicOptions extends TopicOptions {
  /** Parses the payload as JSON and validates it. A message that fails is dead; its error names the path. */
  readonly schema?: StandardSchema;
}

export interface PlainHandlerDefinition<Message, Tx = unknown> extends CheckedTopicOptions {
  readonly transactional?: false | undefined;
  readonly handle: HandlerFunction<Message, Tx>;
}

export interface TransactionalHandlerDefinition<Message, Tx = unknown> extends CheckedTopicOptions {
  /** Runs the handler in a transaction with the acknowledgement: `context.tx`. A worker that lost its lease cannot commit. */
  readonly transactional: true;
  readonly handle: (message: Message, context: TransactionalContext<Tx>) => unknown;
}

export type HandlerDefinition<Message, Tx = unknown> =
  | PlainHandlerDefinition<Message, Tx>
  | TransactionalHandlerDefinition<Message, Tx>;

/** A function alone, or a definition. */
export type HandlerEntry<Message, Tx = unknown> =
  // Without a property that tells the three apart, the compiler would not type the parameters of a definition's `handle`.
  (HandlerFunction<Message, Tx> & { readonly transactional?: undefined }) | HandlerDefinition<Message, Tx>;

/** By topic, case-sensitive. `"order.*"` is for every topic that begins so, `"*"` for every other; the longest that fits is used. */
export type Handlers<Message, Tx = unknown> = Readonly<Record<TopicPattern, HandlerEntry<Message, Tx>>>;

/** A handler whose message has its payload as `data`, validated and typed by a schema. */
export function typedHandler<Data, Message extends QueueMessage = QueueMessage, Tx = unknown>(
  schema: StandardSchema<Data>,
  handle: HandlerFunction<Message & { readonly data: Data }, Tx>,
  options: TopicOptions & { readonly transactional?: boolean } = {},
): HandlerDefinition<Message, Tx> {
  return { ...options, schema, handle } as HandlerDefinition<Message, Tx>;
}

export interface ResolvedHandler<Message, Tx> extends Omit<CheckedTopicOptions, "retry"> {
  readonly handle: HandlerFunction<Message, Tx>;
  readonly transactional?: boolean;
  /** The topic, or the pattern of topics. */
  readonly topic: TopicPattern;
  /** The topic's policy, or the dispatcher's. Undefined: the store's policy applies. */
  readonly retry: RetryPolicy | undefined;
}

const known = ["handle", "schema", "timeoutMs", "concurrency", "leaseMs", "retry", "transactional"];

/** Checks every handler when the dispatcher is made. */
export function resolveHandlers<Message, Tx>(
  handlers: Handlers<Message, Tx>,
  defaultRetry: RetryPolicy | undefined,
): ReadonlyMap<string, ResolvedHandler<Message, Tx>> {
  const resolved = new Map<string, ResolvedHandler<Message, Tx>>();
  for (const [topic, entry] of Object.entries(handlers)) {
    requirePattern(topic, "a handler's topic");
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
      throw new InvalidArgumentError(`concurrency of "${topic}" must be a whole number, 1 or more.`);
    }
    const retry =
      definition.retry === undefined ? defaultRetry : retryPolicy({ ...defaultRetry, ...definition.retry });
    resolved.set(topic, { ...definition, topic, retry } as ResolvedHandler<Message, Tx>);
  }
  return resolved;
}
