import { InvalidArgumentError } from "../errors.js";

/** The fields that a message to receive and a message to send have in common. */
export interface MessageContent {
  readonly topic: string;
  /** Any text; it may be empty. */
  readonly payload: string;
  readonly correlationId?: string | null | undefined;
  /** Messages with the same partition key are handled one at a time, in the order in which they were enqueued. */
  readonly partitionKey?: string | null | undefined;
  readonly headers?: Readonly<Record<string, string>> | null | undefined;
  /** The message is not claimed before this time; due at once by default. */
  readonly dueAt?: Date | null | undefined;
  /** A message that is not handled by this time is dead (in the inbox) or failed (in the outbox). */
  readonly expiresAt?: Date | null | undefined;
}

export const contentFields: readonly string[] = [
  "topic",
  "payload",
  "correlationId",
  "partitionKey",
  "headers",
  "dueAt",
  "expiresAt",
] satisfies (keyof MessageContent)[];

/** A message to send. */
export interface OutgoingMessage extends MessageContent {
  /** A GUID by which receivers deduplicate; the message's own `id` by default. */
  readonly messageId?: string | undefined;
  /**
   * What the message is about, such as `invoice-7`. Of all messages of a topic with the same natural key, the first is
   * enqueued: another call adds nothing and returns its id, as long as it is in the outbox, also when it is done or failed.
   */
  readonly naturalKey?: string | null | undefined;
}

/** A message whose content is given as a value, instead of as text. */
export type WithData<Message extends { readonly payload: string }> =
  | (Omit<Message, "payload"> & {
      /** Any text; it may be empty. */
      readonly payload: string | GiveObjectsAsData;
    })
  | (Omit<Message, "payload"> & {
      /** Stored as JSON. Handlers read it as `data`. */
      readonly data: unknown;
      readonly payload?: undefined;
    });

/** No value has this type: its name is what the compiler says of an object as `payload`. */
interface GiveObjectsAsData {
  readonly "payload is text: give an object as data": never;
}

/** The message with its data as the payload. */
export function withPayload<Message extends { readonly payload: string }>(
  message: WithData<Message>,
): Message {
  if (Object(message) !== message || !("data" in message)) return message as Message; // its check says what is wrong
  const { data, payload, ...rest } = message as unknown as {
    readonly data: unknown;
    readonly payload?: string;
  };
  if (payload !== undefined) throw new InvalidArgumentError("Give payload or data, not both.");
  return { ...rest, payload: asJson(data) } as unknown as Message;
}

function asJson(data: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(data);
  } catch (error) {
    const reason =
      error instanceof TypeError && /circular/i.test(error.message) ? "it is circular" : "see cause";
    throw new InvalidArgumentError(`data cannot be written as JSON: ${reason}.`, { cause: error });
  }
  if (text === undefined)
    throw new InvalidArgumentError(`data cannot be written as JSON: it is ${typeof data}.`);
  return text;
}
