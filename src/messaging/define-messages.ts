import type { InputOf, StandardSchema } from "../queue/standard-schema.js";
import type { JsonOf, NotJson } from "./json-types.js";

/** A schema whose input can be written as JSON, as far as its type tells. */
type JsonSchema<Schema extends StandardSchema> = Schema &
  (InputOf<Schema> extends JsonOf<InputOf<Schema>> ? unknown : NotJson);

export interface MessageOptions {
  /**
   * Says that the schema takes what JSON can hold, although the schema itself cannot describe it. An example is zod's
   * `z.coerce.date()`, which takes a text.
   */
  readonly takesJson?: boolean;
}

export interface CommandOptions extends MessageOptions {
  /** The handler may return `responseReference(url)` instead of the response, where a response can be large. */
  readonly byReference?: boolean;
}

export interface SignalDefinition<Payload extends StandardSchema = StandardSchema> {
  readonly messageType: "Signal";
  readonly payload: Payload;
  readonly takesJson: boolean;
}

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

export interface PushCallDefinition<
  Input extends StandardSchema = StandardSchema,
  Output extends StandardSchema = StandardSchema,
> {
  readonly messageType: "PushCall";
  readonly input: Input;
  readonly output: Output;
  readonly takesJson: boolean;
}

export type MessageDefinition = SignalDefinition | CommandDefinition | PushCallDefinition;
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
