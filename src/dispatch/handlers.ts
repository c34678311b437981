import type { Telemetry } from "../base/telemetry.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown, requireDuration, requireName } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import { type RetryPolicy, retryPolicy } from "../queue/retry-policy.js";
import type { StandardSchema } from "../queue/standard-schema.js";

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

const knownHandlerOptions = [
  "handle",
  "schema",
  "timeoutMs",
  "concurrency",
  "leaseMs",
  "retry",
  "transactional",
];

/** Checks every handler when the dispatcher is made. */
export function resolveHandlers<Message, Tx>(
  handlers: Handlers<Message, Tx>,
  defaultRetry: RetryPolicy | undefined,
): ReadonlyMap<string, ResolvedHandler<Message, Tx>> {
  const resolved = new Map<string, ResolvedHandler<Message, Tx>>();
  for (const [topic, entry] of Object.entries(handlers)) {
    requirePattern(topic, "a handler's topic");
    const definition = typeof entry === "function" ? { handle: entry } : entry;
    refuseUnknown(definition, knownHandlerOptions, `handler of "${topic}"`);
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

declare const transactionOf: unique symbol;

/** What `work` resolves to. A function that begins transactions returns it: so its type says which transaction handlers get. */
export interface RanInTransaction<Tx> {
  readonly [transactionOf]: Tx;
}

export interface BeginOptions {
  /** Fires when the handler is given up: end the transaction then, if your library can while the handler still uses it. */
  readonly signal: AbortSignal;
  /** The id of the store that the message is from. */
  readonly store: string;
}

/**
 * Runs `work` in a transaction of your own library: commits when `work` resolves, rolls back when it rejects, and returns
 * what it resolves to. `work` takes the transaction twice: adapted for the acknowledgement, and as handlers get it.
 *
 * @example
 * (work) => knex.transaction((trx) => work(fromKnex(trx), trx))
 */
export type BeginHandlerTransaction<StoreTx, Tx> = (
  work: <Own>(tx: StoreTx, own: Own) => Promise<RanInTransaction<Own>>,
  options: BeginOptions,
) => Promise<RanInTransaction<Tx>>;

/** What becomes of a message whose topic has no handler. */
export type OnUnhandled = "ack" | "dead" | "retry";

const onUnhandledChoices: readonly OnUnhandled[] = ["ack", "dead", "retry"];

/** What is done with the messages of a topic. */
export interface TopicPlan<Message, Tx> {
  /** The topic, or the pattern it fits: their number is bounded where a handler or `ignore` names them. */
  readonly name: TopicPattern;
  readonly handler: ResolvedHandler<Message, Tx> | undefined;
  /** Without a handler: what becomes of the message. `"ignore"` when the app said so for this topic. */
  readonly onUnhandled: OnUnhandled | "ignore";
}

/** Finds the plan of a topic: of its handler or of `ignore`, whichever pattern is longer, else of `onUnhandled`. */
export function topicPlans<Message, Tx>(
  handlers: ReadonlyMap<TopicPattern, ResolvedHandler<Message, Tx>>,
  {
    ignore = [],
    onUnhandled = "retry",
  }: { readonly ignore?: readonly TopicPattern[]; readonly onUnhandled?: OnUnhandled },
): (topic: string) => TopicPlan<Message, Tx> {
  checkTopicOptions(handlers, ignore, onUnhandled);
  const plans = new Map<TopicPattern, TopicPlan<Message, Tx>>();
  for (const name of ignore) plans.set(name, { name, handler: undefined, onUnhandled: "ignore" });
  for (const [name, handler] of handlers) plans.set(name, { name, handler, onUnhandled });
  const find = topicMatcher(plans);
  return (topic) => find(topic) ?? { name: topic, handler: undefined, onUnhandled };
}

function checkTopicOptions(
  handlers: ReadonlyMap<TopicPattern, unknown>,
  ignore: unknown,
  onUnhandled: unknown,
): void {
  if (!Array.isArray(ignore)) throw new InvalidArgumentError("ignore must be a list of topics.");
  for (const pattern of ignore) {
    requirePattern(pattern, "a topic of ignore");
    if (handlers.has(pattern))
      throw new InvalidArgumentError(`The topic ${JSON.stringify(pattern)} has a handler and is in ignore.`);
  }
  if (!onUnhandledChoices.includes(onUnhandled as OnUnhandled))
    throw new InvalidArgumentError(`onUnhandled must be one of ${onUnhandledChoices.join(", ")}.`);
}

/** A topic, or all that begin with some text: `"order.created"`, `"order.*"`, `"*"`. */
export type TopicPattern = string;

/** A star is only understood at the end. Elsewhere it would look as if it matched and never would. */
function requirePattern(pattern: TopicPattern, what: string): void {
  requireName(pattern, what);
  if (pattern.slice(0, -1).includes("*"))
    throw new InvalidArgumentError(`${what} may have a * only at its end: ${JSON.stringify(pattern)}.`);
}

/** Finds the value of the topic itself, else of the longest pattern that fits. */
export function topicMatcher<Value>(
  values: ReadonlyMap<TopicPattern, Value>,
): (topic: string) => Value | undefined {
  const prefixes = [...values]
    .filter(([pattern]) => pattern.endsWith("*"))
    .map(([pattern, value]) => ({ prefix: pattern.slice(0, -1), value }))
    .sort((a, b) => b.prefix.length - a.prefix.length);
  return (topic) => values.get(topic) ?? prefixes.find(({ prefix }) => topic.startsWith(prefix))?.value;
}
