import type { InputOf, OutputOf } from "../queue/standard-schema.js";
import type { SqlExecutor } from "../sql/driver.js";
import type {
  CommandDefinition,
  MessageDefinitions,
  PushCallDefinition,
  SignalDefinition,
} from "./define-messages.js";
import type { ResponseReference } from "./response-reference.js";

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

export interface SendOptions {
  /** The caller's transaction: the message is sent if, and only if, it commits. By default that of the running handler. */
  readonly tx?: SqlExecutor;
  readonly correlationId?: string | undefined;
  /** Replaces the service's number of retries. */
  readonly maxRetries?: number | undefined;
  /** Replaces the service's `ttlMs`. */
  readonly ttlMs?: number | undefined;
  /** Messages with the same partition key are sent one at a time and in order. */
  readonly partitionKey?: string | undefined;
  /** Sent with the message, such as `traceparent`. Names are in lower case and do not begin with `rf-`. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly signal?: AbortSignal | undefined;
}

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
export type ResponseOf<Definition> =
  Definition extends CommandDefinition<infer _, infer Response, infer ByReference>
    ? OutputOf<Response> | (ByReference extends true ? ResponseReference : never)
    : never;

/** What the handler of a command returns. */
export type HandlerResponseOf<Definition> =
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

export interface ReceiveContext extends MessageContext {
  readonly messageId: string;
  readonly headers: Readonly<Record<string, string>>;
}

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

export type ResponseHandlers<Messages extends MessageDefinitions> = {
  readonly [Name in NamesOf<Messages, CommandDefinition>]?: (
    response: ResponseOf<Messages[Name]>,
    context: ResponseContext,
  ) => unknown;
};
