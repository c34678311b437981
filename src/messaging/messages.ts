import { type InputOf, type OutputOf, type StandardSchema, validated } from "../queue/standard-schema.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { ResponseReference } from "./responses.js";

/** A schema whose input can be written as JSON, as far as its type says. */
type JsonSchema<Schema extends StandardSchema> = Schema &
  (InputOf<Schema> extends JsonOf<InputOf<Schema>> ? unknown : NotJson);

/** Options of a message. */
export interface MessageOptions {
  /**
   * Says that the schema takes what JSON can hold, although the schema itself cannot describe it. An example is zod's
   * `z.coerce.date()`, which takes a text.
   */
  readonly takesJson?: boolean;
}

/** Options of a command. */
export interface CommandOptions extends MessageOptions {
  /** The handler may return `responseReference(url)` instead of the response, where a response can be large. */
  readonly byReference?: boolean;
}

/** A signal: it reports, and gets no response. */
export interface SignalDefinition<Payload extends StandardSchema = StandardSchema> {
  readonly messageType: "Signal";
  readonly payload: Payload;
  readonly takesJson: boolean;
}

/** A command: it asks, and gets a response. */
export interface CommandDefinition<
  Payload extends StandardSchema = StandardSchema,
  Response extends StandardSchema = StandardSchema,
  ByReference extends boolean = boolean,
> {
  readonly messageType: "Command";
  readonly payload: Payload;
  readonly response: Response;
  readonly byReference: ByReference;
  readonly takesJson: boolean;
}

/** A push call: it reports a function's call, with input and output. */
export interface PushCallDefinition<
  Input extends StandardSchema = StandardSchema,
  Output extends StandardSchema = StandardSchema,
> {
  readonly messageType: "PushCall";
  readonly input: Input;
  readonly output: Output;
  readonly takesJson: boolean;
}

/** A message that a service sends or receives. */
export type MessageDefinition = SignalDefinition | CommandDefinition | PushCallDefinition;
/** The messages of a service, by name. */
export type MessageDefinitions = Readonly<Record<string, MessageDefinition>>;

/** Something happened. The sender does not wait for a result. */
export const signal = <Payload extends StandardSchema>(
  payload: JsonSchema<Payload>,
  { takesJson = false }: MessageOptions = {},
): SignalDefinition<Payload> => ({ messageType: "Signal", payload, takesJson });

/** Do something. The receiver's handler returns a response. */
export const command = <
  Payload extends StandardSchema,
  Response extends StandardSchema,
  const Options extends CommandOptions = object,
>(
  payload: JsonSchema<Payload>,
  response: JsonSchema<Response>,
  options?: Options,
): CommandDefinition<Payload, Response, Options extends { readonly byReference: true } ? true : false> => {
  const { byReference = false, takesJson = false }: CommandOptions = options ?? {};
  type ByReference = Options extends { readonly byReference: true } ? true : false;
  return { messageType: "Command", payload, response, byReference: byReference as ByReference, takesJson };
};

/** A function was called: its input and output are sent. */
export const pushCall = <Input extends StandardSchema, Output extends StandardSchema>(
  input: JsonSchema<Input>,
  output: JsonSchema<Output>,
  { takesJson = false }: MessageOptions = {},
): PushCallDefinition<Input, Output> => ({ messageType: "PushCall", input, output, takesJson });

/**
 * Declares messages by their names, which are the endpoints. Both services import the declaration. `createService` checks
 * it.
 *
 * @example
 * const messages = defineMessages({ OrderApproved: signal(orderSchema), ReserveStock: command(itemsSchema, reservedSchema) });
 */
export const defineMessages = <const Definitions extends MessageDefinitions>(
  definitions: Definitions,
): Definitions => Object.freeze({ ...definitions });

type Primitive = string | number | boolean | null | undefined;

/** Values that JSON has no form for, or that come back as something else. */
type Unserialisable =
  | bigint
  | symbol
  | ((...args: never[]) => unknown)
  | Date
  | RegExp
  | Error
  | Promise<unknown>
  | ReadonlyMap<unknown, unknown>
  | ReadonlySet<unknown>
  | (WeakKey & ArrayBufferView);

/** The type itself where JSON can hold it, and `never` in the place of what JSON cannot hold. */
type JsonOf<T> = unknown extends T
  ? T
  : T extends Primitive
    ? T
    : T extends Unserialisable
      ? never
      : { [Name in keyof T]: JsonOf<T[Name]> };

/** What a schema has to be in addition when its input cannot be written as JSON: nothing is, so the compiler refuses it. */
interface NotJson {
  readonly "the schema's input cannot be written as JSON": never;
}

type Both<Union> = (Union extends unknown ? (one: Union) => void : never) extends (all: infer All) => void
  ? All
  : never;

/** One declaration, or several as one. */
export type Combined<Messages> = Messages extends readonly (infer One)[]
  ? Both<One> extends infer All extends MessageDefinitions
    ? All
    : never
  : Messages extends MessageDefinitions
    ? Messages
    : never;

type NamesOf<Messages extends MessageDefinitions, Kind> = {
  [Name in keyof Messages]: Messages[Name] extends Kind ? Name : never;
}[keyof Messages];

/** Options of a message that is sent. */
export interface SendOptions {
  /** The caller's transaction: the message is sent if, and only if, it commits. By default that of the running handler. */
  readonly tx?: SqlExecutor;
  readonly correlationId?: string | undefined;
  /** Replaces the service's number of retries. With `Infinity` the message is sent until it expires. */
  readonly maxRetries?: number | undefined;
  /** Replaces the service's `ttlMs`. */
  readonly ttlMs?: number | undefined;
  /** Messages with the same partition key are sent one at a time and in order. */
  readonly partitionKey?: string | undefined;
  /** Sent with the message, such as `traceparent`. Names are in lower case and do not begin with `rf-`. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Options of a command whose response is waited for. */
export interface RequestOptions {
  /** The longest time to wait for the response, retries included: 30 s by default. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly correlationId?: string | undefined;
  readonly maxRetries?: number | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

type PayloadOf<Definition> =
  Definition extends SignalDefinition<infer Schema>
    ? Schema
    : Definition extends CommandDefinition<infer Schema>
      ? Schema
      : never;

type Sendable = SignalDefinition | CommandDefinition;

/** Writes a message to the outbox. Returns its message id. */
export type Senders<Messages extends MessageDefinitions, Destination extends string> = {
  readonly [Name in NamesOf<Messages, Sendable>]: (
    destination: Destination,
    payload: InputOf<PayloadOf<Messages[Name]>>,
    options?: SendOptions,
  ) => Promise<string>;
};

/** What the sender of a command gets. */
type ResponseOf<Definition> =
  Definition extends CommandDefinition<infer _, infer Response, infer ByReference>
    ? OutputOf<Response> | (ByReference extends true ? ResponseReference : never)
    : never;

/** What the handler of a command returns. */
type HandlerResponseOf<Definition> =
  Definition extends CommandDefinition<infer _, infer Response, infer ByReference>
    ? InputOf<Response> | (ByReference extends true ? ResponseReference : never)
    : never;

/** Sends a command directly and waits for its response. Nothing is stored by the sender. */
export type Requesters<Messages extends MessageDefinitions, Destination extends string> = {
  readonly [Name in NamesOf<Messages, CommandDefinition>]: (
    destination: Destination,
    payload: InputOf<PayloadOf<Messages[Name]>>,
    options?: RequestOptions,
  ) => Promise<ResponseOf<Messages[Name]>>;
};

/** Wraps a function. Each call of it runs in a transaction, and its input and output are sent if that commits. */
export type PushCalls<Messages extends MessageDefinitions, Destination extends string> = {
  readonly [Name in NamesOf<Messages, PushCallDefinition>]: Messages[Name] extends PushCallDefinition<
    infer Input,
    infer Output
  >
    ? <Result extends InputOf<Output>>(
        destination: Destination,
        call: (input: OutputOf<Input>, context: { readonly tx: SqlExecutor }) => Result | Promise<Result>,
      ) => (input: InputOf<Input>, options?: SendOptions) => Promise<Result>
    : never;
};

interface MessageContext {
  /** The service that the message is from. */
  readonly sourceServiceId: string;
  readonly correlationId: string | null;
  readonly endpoint: string;
  /** The transaction that also records the message as handled. `send` joins it. */
  readonly tx: SqlExecutor;
  /** Fires when the handler's time is up. */
  readonly signal: AbortSignal;
}

/** What the handler of a service's message gets beside it. */
export interface ReceiveContext extends MessageContext {
  readonly messageId: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** What a handler of responses gets beside the response. */
export interface ResponseContext extends MessageContext {
  /** The message id of the command. */
  readonly inReplyTo: string;
}

type Received<Definition> =
  Definition extends SignalDefinition<infer Payload>
    ? (payload: OutputOf<Payload>, context: ReceiveContext) => unknown
    : Definition extends CommandDefinition<infer Payload>
      ? (
          payload: OutputOf<Payload>,
          context: ReceiveContext,
        ) => HandlerResponseOf<Definition> | Promise<HandlerResponseOf<Definition>>
      : Definition extends PushCallDefinition<infer Input, infer Output>
        ? (
            call: { readonly input: OutputOf<Input>; readonly output: OutputOf<Output> },
            context: ReceiveContext,
          ) => unknown
        : never;

/** Handlers by endpoint. A service handles the messages that it wants. */
export type Receivers<Messages extends MessageDefinitions> = {
  readonly [Name in keyof Messages]?: Received<Messages[Name]>;
};

/** Handlers of responses, by message. */
export type ResponseHandlers<Messages extends MessageDefinitions> = {
  readonly [Name in NamesOf<Messages, CommandDefinition>]?: (
    response: ResponseOf<Messages[Name]>,
    context: ResponseContext,
  ) => unknown;
};

type Declarations = MessageDefinitions | readonly MessageDefinitions[];

export const declarationsOf = (messages: Declarations): readonly MessageDefinitions[] =>
  Array.isArray(messages) ? (messages as readonly MessageDefinitions[]) : [messages as MessageDefinitions];

/** All declarations as one. Of two with the same name the last one counts; `createService` refuses them. */
export const combinedMessages = (messages: Declarations): ReadonlyMap<string, MessageDefinition> =>
  new Map(declarationsOf(messages).flatMap((one) => Object.entries(one ?? {})));

/** What the schemas of a message make of its payload. */
export async function validatedPayload(
  definition: MessageDefinition,
  payload: unknown,
  endpoint: string,
): Promise<unknown> {
  if (definition.messageType !== "PushCall")
    return validated(definition.payload, payload, `The payload of "${endpoint}"`);
  const { input, output } = (payload ?? {}) as { readonly input?: unknown; readonly output?: unknown };
  return {
    input: await validated(definition.input, input, `The input of "${endpoint}"`),
    output: await validated(definition.output, output, `The output of "${endpoint}"`),
  };
}
