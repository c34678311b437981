import { guardedMetrics } from "../base/metrics.js";
import { errorType, inSpan, type SpanStart, sentHeaders, type Telemetry } from "../base/tracing.js";
import { guarded } from "./guarded.js";
import type { PublishedMessage, Publisher, PublisherOptions } from "./publisher.js";

/** A publisher: `send` guarded, measured and traced. The message that it gets carries the span's context in its headers. */
export function publishTo(destination: string, options: PublisherOptions, send: Publisher): Publisher {
  const own = options.metrics && guardedMetrics(options.metrics);
  return guarded(destination, options, async (message, context) => {
    const telemetry: Telemetry = { ...context.telemetry, ...(own && { metrics: own }) };
    const startedAt = performance.now();
    let outcome = "ok";
    try {
      await traced(destination, message, telemetry, (traced) => send(traced, context));
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
