import type { Meter } from "@opentelemetry/api";
import type { MetricAttributes, Metrics } from "../base/telemetry.js";
import { type MetricEntry, metricTable } from "./metric-table.js";

type Write = (value: number, attributes: MetricAttributes) => void;

/**
 * A sink that writes to a meter. Durations and ages are in seconds, as OpenTelemetry has them; those whose name says
 * milliseconds stay so. An instrument is made at its first value, when the SDK has been started.
 */
export function openTelemetryMetrics(meterOf: () => Meter): Required<Metrics> {
  const writers = new Map<string, Write>();

  const make = (kind: MetricEntry["kind"], name: string): Write => {
    const own = writerOf(meterOf(), kind, name);
    const convention = conventions[name];
    if (convention === undefined) return own;
    const beside = writerOf(meterOf(), kind, convention.name);
    return (value, attributes) => {
      own(value, attributes);
      beside(value, conventionalAttributes(attributes, convention));
    };
  };

  const writing =
    (kind: MetricEntry["kind"]) =>
    (name: string, value: number, attributes: MetricAttributes): void => {
      let write = writers.get(name);
      if (write === undefined) {
        write = make(kind, name);
        writers.set(name, write);
      }
      write(value, attributes);
    };

  return {
    count: writing("count"),
    duration: writing("duration"),
    gauge: writing("gauge"),
    histogram: writing("histogram"),
  };
}

function writerOf(meter: Meter, kind: MetricEntry["kind"], name: string): Write {
  const { unit: own = kind === "duration" ? "ms" : "1", description = "" } = metricTable[name] ?? {};
  const inSeconds = own === "ms" && !name.endsWith("_ms");
  const options = { unit: inSeconds ? "s" : own, description };
  if (kind === "count") {
    const counter = meter.createCounter(name, options);
    return (value, attributes) => counter.add(value, attributes);
  }
  const advice = adviceFor(options.unit);
  const instrument =
    kind === "gauge" ? meter.createGauge(name, options) : meter.createHistogram(name, { ...options, advice });
  return (value, attributes) => instrument.record(inSeconds ? value / 1_000 : value, attributes);
}

/** In seconds. OpenTelemetry's for messaging, and some on both sides: handlers take from microseconds to minutes. */
const boundaries = [
  ...[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1],
  ...[0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 300],
];

function adviceFor(unit: string) {
  if (unit === "s") return { explicitBucketBoundaries: boundaries };
  return unit === "ms" ? { explicitBucketBoundaries: boundaries.map((s) => s * 1_000) } : {};
}

/** The same measurement by OpenTelemetry's conventions for messaging. */
interface Convention {
  readonly name: string;
  readonly verb: string;
  /** Our attribute that names the destination. */
  readonly destination: string;
}

/** By our name. The messages between services have their conventional names from the start. */
const conventions: Readonly<Record<string, Convention>> = {
  "oncebox.handler.duration": {
    name: "messaging.process.duration",
    verb: "process",
    destination: "topic",
  },
  "oncebox.send.duration": {
    name: "messaging.client.operation.duration",
    verb: "send",
    destination: "destination",
  },
  "oncebox.claimed": {
    name: "messaging.client.consumed.messages",
    verb: "claim",
    destination: "queue",
  },
  "oncebox.enqueued": {
    name: "messaging.client.sent.messages",
    verb: "enqueue",
    destination: "topic",
  },
};

function conventionalAttributes(
  attributes: MetricAttributes,
  { verb, destination }: Convention,
): MetricAttributes {
  const { outcome } = attributes;
  return {
    "messaging.system": "oncebox",
    "messaging.operation.name": verb,
    "messaging.destination.name": attributes[destination] ?? "",
    ...(outcome === undefined || outcome === "ok" ? {} : { "error.type": outcome }),
  };
}
