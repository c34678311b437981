import type { PublishedMessage } from "./publisher.js";

/** For queues whose messages have a body and nothing else. */
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

/** Undefined for what is none of ours. */
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
