import type { MetricAttributes, Telemetry } from "../base/telemetry.js";
import { InvalidArgumentError } from "../errors.js";
import { optionalCount, refuseUnknown, requireDuration, requirePattern } from "../queue/arguments.js";
import type { InboxMessage, OutgoingMessage, QueueMessage, WithData } from "../queue/message.js";
import { type RetryPolicy, retryPolicy } from "../queue/retry-policy.js";
import type { InputOf, StandardSchema } from "../queue/standard-schema.js";
import type { DataOf, TopicMessage, TopicSchemas } from "../queue/topics.js";
import type { PermanentFailure, RetryAfter } from "./settlement.js";
import { type DurationEstimate, durationEstimate } from "./timing.js";

/** What every handler gets beside its message. */
export interface HandlerContext {
  /** Fires when the handler's or the function's time is nearly up, or when the lease is lost. A handler that stops then loses nothing. */
  readonly signal: AbortSignal;
  /** The store the message is from. */
  readonly store: string;
  /** The dispatcher's metrics and tracing, by which a publisher reports what it sends. */
  readonly telemetry?: Telemetry | undefined;
}

/** The context of a handler without `transactional: true`. It has no `tx`, and its name says why where the compiler misses one. */
export interface NonTransactionalContext extends HandlerContext {}

/** The context of a handler with `transactional: true`. */
export interface TransactionalContext<Tx = unknown> extends HandlerContext {
  /** The transaction that also holds the acknowledgement. */
  readonly tx: Tx;
}

/** A message that a handler returns: as the outbox takes it, with attributes if they are wanted. */
export type ReturnedMessage = WithData<OutgoingMessage> & WithAttributes;

interface WithAttributes {
  /** Stored as headers. Values that are no texts are stored as JSON, and `attributesOf(message)` gives them back with their types. */
  readonly attributes?: Readonly<Record<string, unknown>> | undefined;
}

/** A message of one of the topics that have a schema, as a handler returns it. */
export interface ReturnedTopicMessage<Topic extends string, Data>
  extends TopicMessage<Topic, Data>,
    WithAttributes {}

/** What handlers may return: any message, or one of `topics`. */
export type ReturnedOf<Topics extends TopicSchemas> = string extends keyof Topics
  ? ReturnedMessage
  : {
      [Topic in keyof Topics & string]: ReturnedTopicMessage<Topic, InputOf<Topics[Topic]>>;
    }[keyof Topics & string];

/** What a handler returns: nothing, or what to send: it is stored in the outbox in the transaction of the acknowledgement. */
export type HandlerResult<Outgoing = ReturnedMessage> =
  // biome-ignore lint/suspicious/noConfusingVoidType: most handlers return nothing, and one without `return` returns void
  void | undefined | null | Outgoing | readonly Outgoing[] | PermanentFailure | RetryAfter;

/**
 * Returns to acknowledge the message, throws to retry it. Throw or return `permanentFailure` to make it dead at once, `retryAfter`
 * to set the delay. Return messages to send them.
 */
export type HandlerFunction<Message, Returned = ReturnedMessage> = Handling<
  Message,
  NonTransactionalContext,
  Returned
>["handle"];

/** A method, because the compiler compares the parameters of methods in both directions: a topic's data is more than `unknown`. */
interface Handling<Message, Context, Returned> {
  handle(message: Message, context: Context): HandlerResult<Returned> | Promise<HandlerResult<Returned>>;
}

/** How the messages of one topic are handled, where that differs from the dispatcher's options. */
export interface TopicOptions {
  /** A handler that takes longer is abandoned. By default the dispatcher's `timeoutMs`; without one, the function's end or five minutes in a worker. */
  readonly timeoutMs?: number;
  /** Handlers of this topic that may run at once, within the dispatcher's own limit. */
  readonly concurrency?: number;
  /** A longer lease than the dispatcher's, for handlers that block the event loop. */
  readonly leaseMs?: number;
  /** Attempts and back-off of this topic. */
  readonly retry?: Partial<RetryPolicy>;
}

interface CheckedTopicOptions<Data = unknown> extends TopicOptions {
  /** Parses the payload as JSON and validates it: `data` is what it makes of it. A message that fails is dead; its error names the path. */
  readonly schema?: StandardSchema<Data>;
}

/** The message with what a schema made of its payload. */
interface WithSchema<Data> {
  readonly data: Data;
}

/** A handler with options. Its `schema` types `data`. */
export interface PlainHandlerDefinition<Message, Data = unknown, Returned = ReturnedMessage>
  extends CheckedTopicOptions<Data> {
  readonly transactional?: false | undefined;
  readonly handle: HandlerFunction<Message & WithSchema<NoInfer<Data>>, Returned>;
}

/** A handler in a transaction with the acknowledgement: what it writes by `tx`, and what it returns, commits with it. */
export interface TransactionalHandlerDefinition<
  Message,
  Tx = unknown,
  Data = unknown,
  Returned = ReturnedMessage,
> extends CheckedTopicOptions<Data> {
  /** Runs the handler in a transaction with the acknowledgement: `context.tx`. A worker that lost its lease cannot commit. */
  readonly transactional: true;
  readonly handle: Handling<
    Message & WithSchema<NoInfer<Data>>,
    TransactionalContext<Tx>,
    Returned
  >["handle"];
}

/** A handler with options, in a transaction or not. */
export type HandlerDefinition<Message, Tx = unknown, Data = unknown, Returned = ReturnedMessage> =
  | PlainHandlerDefinition<Message, Data, Returned>
  | TransactionalHandlerDefinition<Message, Tx, Data, Returned>;

/** A function, or a definition. */
export type HandlerEntry<Message, Tx = unknown, Data = unknown, Returned = ReturnedMessage> =
  | FunctionEntry<Message, Data, Returned>
  | HandlerDefinition<Message, Tx, Data, Returned>;

/** Without a property that tells the three apart, the compiler would not type the parameters of a definition's `handle`. */
type FunctionEntry<Message, Data, Returned> = HandlerFunction<
  Message & WithSchema<NoInfer<Data>>,
  Returned
> & { readonly transactional?: undefined };

/** By topic, case-sensitive. `"order.*"` is for every topic that begins so, `"*"` for every other; the longest that fits is used. */
export type Handlers<Message, Tx = unknown> = Readonly<Record<TopicPattern, HandlerEntry<Message, Tx>>>;

/**
 * Handlers whose `data` is typed by `topics`, or by a schema of their own. The compiler infers `Own`, the data of each handler's own
 * schema, and `Made`, the handlers as they are written.
 */
export type TypedHandlers<
  Message,
  Tx,
  Topics extends TopicSchemas,
  Own,
  Returned = ReturnedMessage,
  Made = unknown,
> = {
  readonly [Topic in keyof Own]: TypedEntry<
    Message,
    Tx,
    DataOf<Topics, Topic, unknown>,
    DataOf<Topics, Topic, Own[Topic]>,
    Returned & NoSuch<"a field of a message", UnknownField<Made[keyof Made]>>
  > &
    FormOf<Made[Topic & keyof Made]>;
};

/** As `HandlerEntry`. The data of a function is not inferred, so that the compiler knows all handlers when it infers that of the others. */
type TypedEntry<Message, Tx, Data, OwnData, Returned> =
  | FunctionEntry<Message, Data, Returned>
  | HandlerDefinition<Message, Tx, OwnData, Returned>;

/** Where the compiler infers what is written there. It is no condition on it. */
export type AsWritten<Made> = [Made] extends [never] ? Made : unknown;

/** A function is compared with functions alone, so that the compiler's errors point into it. */
export type FormOf<Entry> = [Entry] extends [never]
  ? unknown
  : [Entry] extends [(...args: never) => unknown]
    ? { readonly handle?: undefined }
    : unknown;

/** The compiler does not look for unknown properties in what a function returns. No value has these types, and they say what is wrong. */
export type NoSuch<What extends string, Name extends string> = [Name] extends [never]
  ? unknown
  : { readonly [Unknown in Name]?: `"${Unknown}" is not ${What}` };

/** The fields in messages that handlers return, and that no message has. */
export type UnknownField<Entry> = Entry extends
  | ((...args: never) => infer Result)
  | { handle(...args: never): infer Result }
  ? UnknownFieldOf<OneOf<Awaited<Result>>>
  : never;
type OneOf<Result> = Result extends readonly (infer Message)[] ? Message : Result;
type UnknownFieldOf<Message> = Message extends { readonly topic: unknown }
  ? string extends keyof Message
    ? never
    : Exclude<keyof Message & string, keyof ReturnedMessage | "data">
  : never;

/** What the compiler takes for `Own` where it infers nothing: any topics, and those of `topics` by name, so that it finds their data. */
export type NoOwnSchemas<Topics extends TopicSchemas = TopicSchemas> = AnyTopics & {
  readonly [Topic in keyof Topics]?: unknown;
};

interface AnyTopics {
  readonly [topic: TopicPattern]: unknown;
}

declare const transactionOf: unique symbol;

/** What `work` resolves to. A function that begins transactions returns it: so its type says which transaction handlers get. */
export interface RanInTransaction<Tx> {
  readonly [transactionOf]: Tx;
}

/** What a function that begins transactions is told of the handler. */
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

/** A topic, or all that begin with some text: `"order.created"`, `"order.*"`, `"*"`. */
export type TopicPattern = string;

export const onUnhandledChoices = ["ack", "bySource", "dead", "retry"] as const;

/**
 * What becomes of a message whose topic has no handler. `"bySource"` acknowledges it where it is of a webhook source that has other
 * handlers, because a provider sends more types than an app needs, and retries it otherwise. What is acknowledged is counted and reported.
 */
export type OnUnhandled = (typeof onUnhandledChoices)[number];

/** How the messages of a topic, or of all topics of one pattern, are handled. */
export interface TopicPlan {
  /** The topic, or the pattern it fits: their number is bounded where a handler or `ignore` names them. */
  readonly name: TopicPattern;
  readonly handler: TopicHandler | undefined;
  /** Without a handler: what becomes of the message. `"ignore"` when the app said so for this topic. */
  readonly onUnhandled: OnUnhandled | "ignore";
  /** Handlers of this topic that may run at once. */
  readonly concurrency: number;
  readonly timeoutMs: number | undefined;
  readonly leaseMs: number;
  /** Undefined: the store's policy applies. */
  readonly retry: RetryPolicy | undefined;
  /** How long its handlers take: learned over all runs of a dispatcher, so that a warm function knows its handlers. */
  readonly durations: DurationEstimate;
  /** Of its metrics, by how the handling ended: the same objects in all runs, so that metrics know them again. */
  readonly attributes: Map<string, MetricAttributes>;
}

export interface TopicHandler extends CheckedTopicOptions {
  handle(message: QueueMessage, context: HandlerContext): HandlerResult | Promise<HandlerResult>;
  readonly transactional?: boolean;
}

/** What becomes of one message without a handler. */
export type UnhandledOutcome = Exclude<OnUnhandled, "bySource"> | "ignore";

export interface TopicPlans {
  /** What becomes of a message whose plan has no handler. */
  unhandled(plan: TopicPlan, message: QueueMessage): UnhandledOutcome;
  /** The plan of the topic's handler or of `ignore`, whichever pattern is longer, else of `onUnhandled`. */
  of(topic: string): TopicPlan;
  /** The mean duration of the fastest topic. */
  quickestMs(): number;
}

/** The options of a dispatcher that are about topics. */
interface TopicsOptions {
  readonly handlers: Handlers<QueueMessage>;
  readonly ignore: readonly TopicPattern[];
  readonly onUnhandled: OnUnhandled;
  readonly sources?: readonly string[] | undefined;
  readonly concurrency: number;
  readonly timeoutMs?: number | undefined;
  readonly leaseMs: number;
  readonly expectedHandlerMs: number;
}

/** Checks every handler and pattern when the dispatcher is made. */
export function topicPlans(options: TopicsOptions, defaultRetry: RetryPolicy | undefined): TopicPlans {
  const { handlers, ignore, onUnhandled, sources = [], expectedHandlerMs } = options;
  checkUnhandled(options);
  const planOf = (
    name: TopicPattern,
    handler: TopicHandler | undefined,
    outcome: TopicPlan["onUnhandled"],
  ): TopicPlan => ({
    name,
    handler,
    onUnhandled: outcome,
    concurrency: handler?.concurrency ?? options.concurrency,
    timeoutMs: handler?.timeoutMs ?? options.timeoutMs,
    leaseMs: handler?.leaseMs ?? options.leaseMs,
    retry: handler?.retry === undefined ? defaultRetry : retryPolicy({ ...defaultRetry, ...handler.retry }),
    durations: durationEstimate(handler === undefined ? 0 : expectedHandlerMs),
    attributes: new Map(),
  });
  const handled = Object.entries(handlers).map(([topic, entry]) =>
    planOf(topic, checkedHandler(topic, entry), onUnhandled),
  );
  const ignored = ignore.map((topic) => planOf(topic, undefined, "ignore"));
  const find = topicMatcher(new Map([...ignored, ...handled].map((plan) => [plan.name, plan])));
  const patterns = Object.keys(handlers);
  return {
    unhandled({ onUnhandled: outcome }, message) {
      if (outcome !== "bySource") return outcome;
      const { source } = message as Partial<InboxMessage>;
      // A message of an outbox, or one that your own code put in: nobody sends it again, and none is sent for nothing.
      if (source === undefined || !sources.includes(source)) return "retry";
      const isOfSource = (topic: string) => topic === source || topic.startsWith(`${source}.`);
      return isOfSource(message.topic) && patterns.some(isOfSource) ? "ack" : "retry";
    },
    of: (topic) => find(topic) ?? planOf(topic, undefined, onUnhandled),
    quickestMs: () =>
      handled.length === 0
        ? expectedHandlerMs
        : Math.min(...handled.map(({ durations }) => durations.meanMs())),
  };
}

function checkUnhandled({ handlers, ignore, onUnhandled, sources }: TopicsOptions): void {
  if (!Array.isArray(ignore)) throw new InvalidArgumentError("ignore must be a list of topics.");
  for (const pattern of ignore) {
    requirePattern(pattern, "a topic of ignore");
    if (Object.hasOwn(handlers, pattern))
      throw new InvalidArgumentError(`The topic ${JSON.stringify(pattern)} has a handler and is in ignore.`);
  }
  if (!onUnhandledChoices.includes(onUnhandled))
    throw new InvalidArgumentError(`onUnhandled must be one of ${onUnhandledChoices.join(", ")}.`);
  if (sources !== undefined && !(Array.isArray(sources) && sources.every((name) => typeof name === "string")))
    throw new InvalidArgumentError("sources must be a list of names.");
  if (sources === undefined && onUnhandled === "bySource")
    throw new InvalidArgumentError(
      'onUnhandled: "bySource" needs sources, the names of the webhook sources whose messages it may acknowledge.',
    );
}

const handlerOptions = ["handle", "schema", "timeoutMs", "concurrency", "leaseMs", "retry", "transactional"];

function checkedHandler(topic: TopicPattern, entry: HandlerEntry<QueueMessage>): TopicHandler {
  requirePattern(topic, "a handler's topic");
  const handler = typeof entry === "function" ? { handle: entry } : (entry as TopicHandler);
  refuseUnknown(handler, handlerOptions, `handler of "${topic}"`);
  const { handle, timeoutMs, leaseMs, concurrency } = handler as TopicHandler;
  if (typeof handle !== "function")
    throw new InvalidArgumentError(
      `The handler of "${topic}" needs a function: { handle(message, context) { … } }.`,
    );
  if (timeoutMs !== undefined) requireDuration(timeoutMs, `timeoutMs of "${topic}"`);
  if (leaseMs !== undefined) requireDuration(leaseMs, `leaseMs of "${topic}"`);
  optionalCount(concurrency, `concurrency of "${topic}"`, 1);
  return handler;
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
