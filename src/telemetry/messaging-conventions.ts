import type { MetricAttributes } from "../base/metrics.js";

interface Conventional {
  readonly name: string;
  attributesOf(attributes: MetricAttributes): MetricAttributes;
}

/** The same measurement by OpenTelemetry's conventions, whose attributes depend on ours alone. */
const conventional = (name: string, operation: string, destination: string): Conventional => {
  // The dispatcher passes one object for each topic and outcome, so nearly all are known.
  const known = new WeakMap<MetricAttributes, MetricAttributes>();
  const convert = (attributes: MetricAttributes): MetricAttributes => {
    const { outcome } = attributes;
    return {
      "messaging.system": "oncebox",
      "messaging.operation.name": operation,
      "messaging.destination.name": attributes[destination] ?? "",
      ...(outcome === undefined || outcome === "ok" ? {} : { "error.type": outcome }),
    };
  };
  return {
    name,
    attributesOf(attributes) {
      const found = known.get(attributes) ?? convert(attributes);
      known.set(attributes, found);
      return found;
    },
  };
};

/** By our name. The messages between services have their conventional names from the start. */
export const messagingConventions: ReadonlyMap<string, Conventional> = new Map([
  ["oncebox.handler.duration", conventional("messaging.process.duration", "process", "topic")],
  ["oncebox.send.duration", conventional("messaging.client.operation.duration", "send", "destination")],
  ["oncebox.claimed", conventional("messaging.client.consumed.messages", "claim", "queue")],
  ["oncebox.enqueued", conventional("messaging.client.sent.messages", "enqueue", "topic")],
]);
