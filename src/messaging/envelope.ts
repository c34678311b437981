/** Signal: something happened. Command: do something. PushCall: a function was called. Response: the result of a command. */
export const messageTypes = ["Signal", "Command", "PushCall", "Response"] as const;
export type MessageType = (typeof messageTypes)[number];

/** A message on its way from one service to another, before it is serialised and signed. */
export interface Envelope {
  /** A GUID, the same on every delivery. Receivers deduplicate by it and the source. */
  readonly messageId: string;
  /** Links the messages of one conversation. A response has that of its command. */
  readonly correlationId: string | null;
  readonly sourceServiceId: string;
  readonly messageType: MessageType;
  /** The name of the message in `defineMessages`. */
  readonly endpoint: string;
  readonly payload: unknown;
  /** Headers beside those of the protocol, such as `traceparent`. Names are in lower case. */
  readonly headers: Readonly<Record<string, string>>;
}
