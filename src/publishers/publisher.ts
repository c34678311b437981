import type { HandlerContext } from "../dispatch/handlers.js";
import type { OutboxMessage } from "../queue/message.js";

/** What a publisher needs of an outbox message. */
export interface PublishedMessage
  extends Pick<OutboxMessage, "id" | "messageId" | "topic" | "payload" | "headers" | "correlationId"> {
  readonly partitionKey?: string | null;
}

/** A handler for an outbox's dispatcher: resolves when the destination has taken the message. */
export type Publisher = (message: PublishedMessage, context: Pick<HandlerContext, "signal">) => Promise<void>;

export interface PublisherOptions {
  /** `false` switches the circuit breaker off. */
  readonly breaker?: Partial<BreakerPolicy> | false;
}

export interface BreakerPolicy {
  /** Failures in a row after which the destination is left alone: 5 by default. */
  readonly failures: number;
  /** For how long: 10 s by default, and twice as long each time that the trial after it fails. */
  readonly openMs: number;
  /** The longest: 5 min by default. */
  readonly maxOpenMs: number;
}
