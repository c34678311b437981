/** A message of a queue trigger, the same for every cloud. */
export interface TriggerMessage {
  /** Duplicates have the same one: the sender's id if it sent one, otherwise the queue's id. */
  readonly messageId: string;
  readonly topic: string;
  readonly payload: string;
  readonly headers: Readonly<Record<string, string>> | null;
  readonly correlationId: string | null;
  /** FIFO group or session. Messages with the same one are handled in order. */
  readonly partitionKey: string | null;
  /** How often the queue has delivered it, including this time. */
  readonly deliveries: number;
}

/** The names under which the publishers of this package send a message's fields other than its payload. */
export const attributeNames = {
  messageId: "messageId",
  topic: "topic",
  correlationId: "correlationId",
  headers: "headers",
} as const;

/** Headers that a publisher of this package wrote as JSON. Null for anything else. */
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
