import { createHash } from "node:crypto";
import { abortAfter } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import type { LoggerOption } from "../base/logger.js";
import {
  errorType,
  guardedMetrics,
  inSpan,
  type Metrics,
  type SpanStart,
  sentHeaders,
  type Telemetry,
} from "../base/telemetry.js";
import type { HandlerContext } from "../dispatch/handlers.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown, requireDuration, requireName } from "../queue/arguments.js";
import type { OutboxMessage } from "../queue/message.js";
import {
  type BreakerPolicy,
  type BreakerReports,
  type CircuitBreaker,
  circuitBreaker,
  noBreaker,
} from "./circuit-breaker.js";
import { cloudEventOptionNames, type MessageFormat, messageFormat } from "./cloud-events.js";

/** The part of an outbox message that publishers need. */
export interface PublishedMessage
  extends Pick<OutboxMessage, "id" | "messageId" | "topic" | "payload" | "headers" | "correlationId">,
    Partial<Pick<OutboxMessage, "type" | "partitionKey" | "naturalKey" | "createdAt">> {}

/** The message's type, for destinations that have a field for it. */
export const typeOf = ({ type, topic }: Pick<PublishedMessage, "type" | "topic">): string => type ?? topic;

/** A handler for an outbox's dispatcher. It resolves when the destination has taken the message. */
export type Publisher = (
  message: PublishedMessage,
  context: Pick<HandlerContext, "signal" | "telemetry">,
) => Promise<void>;

/** Options that all publishers have. */
export interface PublisherOptions {
  /** Sends CloudEvents: see `MessageFormat`. By default the payload is sent as it is. */
  readonly format?: MessageFormat;
  /** Of CloudEvents: a URI that names who sends, such as `https://example.com/orders`; `urn:oncebox:outbox` by default. */
  readonly source?: string;
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

/**
 * A publisher: `send` guarded, measured and traced. The message that it gets carries the span's context in its headers, and is written
 * in the options' format.
 */
export function publishTo(
  destination: string,
  options: PublisherOptions,
  send: Publisher,
  formats?: readonly MessageFormat[],
): Publisher {
  const formatted = messageFormat("publisher", options, formats);
  const own = options.metrics && guardedMetrics(options.metrics);
  return guarded(destination, options, async (message, context) => {
    const telemetry: Telemetry = { ...context.telemetry, ...(own && { metrics: own }) };
    const startedAt = performance.now();
    let outcome = "ok";
    try {
      await traced(destination, message, telemetry, (traced) => send(formatted(traced), context));
    } catch (error) {
      outcome = errorType(error);
      throw error;
    } finally {
      const ms = performance.now() - startedAt;
      telemetry.metrics?.duration("oncebox.send.duration", ms, { destination, outcome });
    }
  });
}

function traced(
  destination: string,
  message: PublishedMessage,
  { tracing }: Telemetry,
  send: (message: PublishedMessage) => Promise<void>,
): Promise<void> {
  if (tracing === undefined) return send(message);
  const sendTraced = () => send({ ...message, headers: sentHeaders(tracing, message.headers) });
  return inSpan(tracing, sendSpan(destination, message.topic, message.messageId), sendTraced);
}

/** The span of one message that is sent to another system. */
export const sendSpan = (destination: string, topic: string, messageId: string): SpanStart => ({
  name: `send ${topic}`,
  kind: "producer",
  attributes: {
    "messaging.system": "oncebox",
    "messaging.operation.name": "send",
    "messaging.operation.type": "send",
    "messaging.destination.name": topic,
    "messaging.message.id": messageId,
    "oncebox.destination": destination,
  },
});

export const publisherOptionNames = ["timeoutMs", "breaker", "logger", "metrics", ...cloudEventOptionNames];

const defaultTimeoutMs = 30_000;

/** Puts the time limit and the destination's circuit breaker around `send`. Its signal aborts when the time is up. */
export function guarded<Message, Context extends { readonly signal: AbortSignal }, Result>(
  destination: string,
  options: PublisherOptions & Pick<BreakerReports, "now">,
  send: (message: Message, context: Context) => Promise<Result>,
): (message: Message, context: Context) => Promise<Result> {
  const { timeoutMs = defaultTimeoutMs, breaker: policy, logger, metrics, now } = options;
  requireDuration(timeoutMs, "publisher: timeoutMs");
  const breaker: CircuitBreaker =
    policy === false
      ? noBreaker
      : circuitBreaker(
          destination,
          { trialMs: timeoutMs, ...policy },
          omitUndefined({ logger, metrics, now }),
        );
  const tooLate = () => new Error(`${destination} did not take the message within ${timeoutMs} ms.`);
  return (message, context) => {
    const { signal: outer } = context;
    const sendInTime = () =>
      abortAfter(timeoutMs, (signal) => send(message, { ...context, signal }), tooLate, outer);
    return breaker.run(sendInTime, outer);
  };
}

/** Options of a publisher by a function of your own. */
export interface FunctionPublisherOptions extends PublisherOptions {
  /** The destination's name in errors, such as "The invoice service". */
  readonly destination: string;
  readonly publish: Publisher;
}

/**
 * Publishes with a function of your own, with a circuit breaker around it.
 *
 * @example
 * functionPublisher({ destination: "RabbitMQ", publish: async (message) => channel.sendToQueue("orders", Buffer.from(message.payload)) })
 */
export function functionPublisher(options: FunctionPublisherOptions): Publisher {
  refuseUnknown(options, ["destination", "publish", ...publisherOptionNames], "functionPublisher");
  requireName(options.destination, "functionPublisher: destination");
  if (typeof options.publish !== "function")
    throw new InvalidArgumentError(
      "functionPublisher: publish must be a function (message, { signal }) => promise.",
    );
  return publishTo(options.destination, options, async (message, context) => {
    await options.publish(message, context);
  });
}

/** A name of fixed length for a key that a destination cannot take as it is. Equal keys have equal names. */
export const hashedKey = (key: string): string => createHash("sha256").update(key).digest("hex");
