/** A message as a queue trigger hands it to a handler, whichever cloud's it is. */
export interface TriggerMessage {
  /** What it is deduplicated by: the sender's own id where it gave one, otherwise the queue's. */
  readonly messageId: string;
  readonly topic: string;
  readonly payload: string;
  readonly headers: Readonly<Record<string, string>> | null;
  readonly correlationId: string | null;
  /** FIFO group or session: messages with the same one are handled in order. */
  readonly partitionKey: string | null;
  /** How often the queue has delivered it, this time included. */
  readonly deliveries: number;
}

/** The names under which the publishers of this package send what a message has beside its payload. */
export const attributeNames = {
  messageId: "messageId",
  topic: "topic",
  correlationId: "correlationId",
  headers: "headers",
} as const;

/** Headers that came as a JSON text; anything else is none of ours. */
export function headersFrom(text: string | undefined): Record<string, string> | null {
  if (text === undefined) return null;
  try {
    const parsed: unknown = JSON.parse(text);
    const isPlain = typeof parsed === "object" && parsed !== null && !Array.isArray(parsed);
    return isPlain && Object.values(parsed).every((value) => typeof value === "string")
      ? (parsed as Record<string, string>)
      : null;
  } catch {
    return null;
  }
}
