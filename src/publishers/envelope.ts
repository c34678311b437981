import type { PublishedMessage } from "./publisher.js";

/** A message with its fields in one body, for queues whose messages have no attributes. */
export interface Envelope {
  readonly messageId: string;
  readonly topic: string;
  readonly payload: string;
  readonly headers: Record<string, string> | null;
  readonly correlationId: string | null;
}

const mark = "oncebox";

export const toEnvelope = (message: PublishedMessage): string =>
  JSON.stringify({
    [mark]: 1,
    messageId: message.messageId,
    topic: message.topic,
    correlationId: message.correlationId,
    headers: message.headers,
    payload: message.payload,
  });

/** Returns undefined when the text is not an envelope of this package. */
export function openEnvelope(text: string): Envelope | undefined {
  try {
    const parsed = JSON.parse(text) as (Envelope & { [mark]?: unknown }) | null;
    const isOurs =
      parsed?.[mark] === 1 &&
      [parsed.messageId, parsed.topic, parsed.payload].every((part) => typeof part === "string");
    return isOurs ? parsed : undefined;
  } catch {
    return undefined;
  }
}
