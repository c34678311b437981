import type { OutboxMessage } from "../queue/message.js";
import { saysExpired } from "../sql/dead-letters.js";
import { shownHeaders } from "../sql/views.js";
import type { Envelope, MessageType } from "./envelope.js";

/** The headers by which a service keeps what the outbox has no column for. */
export const headerNames = {
  ...shownHeaders,
  source: "rf-source",
  /** Sent: the message id of the command that a response is for. */
  inReplyTo: "rf-in-reply-to",
  /** Sent: the sender waits for the acknowledgement and wants no Response message. */
  replyWith: "rf-reply-with",
} as const;

const notSent: readonly string[] = [headerNames.messageType, headerNames.source, headerNames.maxRetries];

/** The topic of an outbox message. A destination's name has no slash. */
export const topicOf = (destination: string, endpoint: string): string => `${destination}/${endpoint}`;

export function addressOf(topic: string): { readonly destination: string; readonly endpoint: string } {
  const slash = topic.indexOf("/");
  return { destination: topic.slice(0, slash), endpoint: topic.slice(slash + 1) };
}

export const sentStates = ["Pending", "Sending", "Sent", "Failed", "Expired"] as const;
/** The state of a message that a service sent. */
export type SentState = (typeof sentStates)[number];

/** A message in the outbox, without its payload. Times are the database's. */
export interface SentMessage {
  readonly messageId: string;
  readonly correlationId: string | null;
  readonly messageType: MessageType;
  readonly destination: string;
  readonly endpoint: string;
  readonly state: SentState;
  /** Retries so far, including the next one. */
  readonly retryCount: number;
  /** `Infinity` when only its expiry ends it; null in JSON. */
  readonly maxRetries: number;
  /** Null when there will be none. */
  readonly nextRetryAt: Date | null;
  readonly lastAttemptAt: Date | null;
  readonly lastError: string | null;
  readonly createdAt: Date;
  readonly sentAt: Date | null;
  readonly expiresAt: Date | null;
}

export const messageTypeOf = ({ headers }: OutboxMessage): MessageType =>
  (headers?.[headerNames.messageType] ?? "Signal") as MessageType;

export function maxRetriesOf({ headers }: OutboxMessage, usual: number): number {
  const own = headers?.[headerNames.maxRetries];
  return own === undefined ? usual : Number(own);
}

export const isExpired = ({ expiresAt }: OutboxMessage, now: Date): boolean =>
  expiresAt !== null && expiresAt <= now;

function sentStateOf(message: OutboxMessage, now: Date): SentState {
  switch (message.state) {
    case "Ready":
      return "Pending";
    case "InProgress":
      return "Sending";
    case "Done":
      return "Sent";
    case "Failed":
      return saysExpired(message.lastError) || isExpired(message, now) ? "Expired" : "Failed";
  }
}

/** How the dispatcher names the errors by which this service ends an attempt. */
const thrown = /^(SendFailed|PermanentFailure|RetryAfter): /;

export function toSentMessage(message: OutboxMessage, usualRetries: number, now: Date): SentMessage {
  const state = sentStateOf(message, now);
  const maxRetries = maxRetriesOf(message, usualRetries);
  return {
    messageId: message.messageId,
    correlationId: message.correlationId,
    messageType: messageTypeOf(message),
    ...addressOf(message.topic),
    state,
    retryCount: Math.min(message.attempt, maxRetries), // the attempt after the last retry counts as well
    maxRetries,
    nextRetryAt: state === "Pending" && message.attempt > 0 ? message.nextAttemptAt : null,
    lastAttemptAt: message.lastAttemptAt,
    lastError: message.lastError?.replace(thrown, "") ?? null,
    createdAt: message.createdAt,
    sentAt: message.processedAt,
    expiresAt: message.expiresAt,
  };
}

export function toEnvelope(message: OutboxMessage, serviceId: string): Envelope {
  const headers = Object.entries(message.headers ?? {}).filter(([name]) => !notSent.includes(name));
  return {
    messageId: message.messageId,
    correlationId: message.correlationId,
    sourceServiceId: message.headers?.[headerNames.source] ?? serviceId,
    messageType: messageTypeOf(message),
    endpoint: addressOf(message.topic).endpoint,
    payload: JSON.parse(message.payload) as unknown,
    headers: Object.fromEntries(headers),
  };
}
