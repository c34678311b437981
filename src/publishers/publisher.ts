import type { HandlerContext } from "../dispatch/handlers.js";
import type { OutboxMessage } from "../queue/message.js";

/** The part of an outbox message that publishers need. */
export interface PublishedMessage
  extends Pick<OutboxMessage, "id" | "messageId" | "topic" | "payload" | "headers" | "correlationId"> {
  readonly partitionKey?: string | null;
}

/** A handler for an outbox's dispatcher. It resolves when the destination has taken the message. */
export type Publisher = (message: PublishedMessage, context: Pick<HandlerContext, "signal">) => Promise<void>;

export interface PublisherOptions {
  /** `false` switches the circuit breaker off. */
  readonly breaker?: Partial<BreakerPolicy> | false;
}

export interface BreakerPolicy {
  /** The breaker opens after this many failures in a row: 5 by default. */
  readonly failures: number;
  /** How long it stays open: 10 s by default. Each failed trial doubles the time. */
  readonly openMs: number;
  /** The longest time it stays open: 5 min by default. */
  readonly maxOpenMs: number;
}
