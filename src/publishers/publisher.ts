import type { LoggerOption } from "../base/logger.js";
import type { Metrics } from "../base/metrics.js";
import type { HandlerContext } from "../dispatch/handlers.js";
import type { OutboxMessage } from "../queue/message.js";

/** The part of an outbox message that publishers need. */
export interface PublishedMessage
  extends Pick<OutboxMessage, "id" | "messageId" | "topic" | "payload" | "headers" | "correlationId"> {
  readonly partitionKey?: string | null;
}

/** A handler for an outbox's dispatcher. It resolves when the destination has taken the message. */
export type Publisher = (
  message: PublishedMessage,
  context: Pick<HandlerContext, "signal" | "telemetry">,
) => Promise<void>;

export interface PublisherOptions {
  /** Time limit for sending a message: 30 s by default, 15 s for webhooks. The request is aborted then. */
  readonly timeoutMs?: number;
  /** `false` switches the circuit breaker off. */
  readonly breaker?: Partial<BreakerPolicy> | false;
  /** Gets a line when the circuit breaker opens and when it closes. */
  readonly logger?: LoggerOption;
  /**
   * Gets `oncebox.breaker` (opened, closed, and refused messages) and `oncebox.send.duration`. The dispatcher's metrics get
   * the durations where none are given here.
   */
  readonly metrics?: Metrics;
}

export interface BreakerPolicy {
  /** The breaker opens after this many failures in a row: 5 by default. */
  readonly failures: number;
  /** How long it stays open: 10 s by default. Each failed trial doubles the time. */
  readonly openMs: number;
  /** The longest time it stays open: 5 min by default. */
  readonly maxOpenMs: number;
  /** A trial that takes longer has failed: 30 s by default; for a publisher, its `timeoutMs`. */
  readonly trialMs: number;
}
