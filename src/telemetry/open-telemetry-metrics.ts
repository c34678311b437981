import type { Meter } from "@opentelemetry/api";
import type { MetricAttributes, Metrics } from "../base/telemetry.js";
import { type MetricEntry, metricTable } from "./metric-table.js";

type Write = (value: number, attributes: MetricAttributes) => void;

/** In seconds. OpenTelemetry's for messaging, and some on both sides: handlers take from microseconds to minutes. */
const boundaries = [
  ...[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1],
  ...[0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 300],
];

/**
 * A sink that writes to a meter. Durations and ages are in seconds, as OpenTelemetry has them; those whose name says
 * milliseconds stay so. An instrument is made at its first value, when the SDK has been started.
 */
export function openTelemetryMetrics(meterOf: () => Meter): Required<Metrics> {
  const writers = new Map<string, Write>();

  const make = (kind: MetricEntry["kind"], name: string): Write => {
    const own = writerOf(meterOf(), kind, name);
    const convention = messagingConventions.get(name);
    const thin = (write: Write): Write => (kind === "duration" ? sampled(write) : write);
    if (convention === undefined) return thin(own);
    const beside = writerOf(meterOf(), kind, convention.name);
    const both: Write = (value, attributes) => {
      own(value, attributes);
      beside(value, convention.attributesOf(attributes));
    };
    return thin(both);
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
  const { unit = kind === "duration" ? "ms" : "1", description = "" } = metricTable[name] ?? {};
  if (unit === "ms" && !name.endsWith("_ms")) return inSeconds(meter, kind, name, description);
  const options = { unit, description };
  switch (kind) {
    case "count": {
      const counter = meter.createCounter(name, options);
      return (value, attributes) => counter.add(value, attributes);
    }
    case "gauge": {
      const gauge = meter.createGauge(name, options);
      return (value, attributes) => gauge.record(value, attributes);
    }
    default: {
      const advice = unit === "ms" ? { explicitBucketBoundaries: boundaries.map((s) => s * 1_000) } : {};
      const histogram = meter.createHistogram(name, { ...options, advice });
      return (value, attributes) => histogram.record(value, attributes);
    }
  }
}

function inSeconds(meter: Meter, kind: MetricEntry["kind"], name: string, description: string): Write {
  const options = { unit: "s", description };
  const instrument =
    kind === "gauge"
      ? meter.createGauge(name, options)
      : meter.createHistogram(name, { ...options, advice: { explicitBucketBoundaries: boundaries } });
  return (ms, attributes) => instrument.record(ms / 1_000, attributes);
}

interface Conventional {
  readonly name: string;
  attributesOf(attributes: MetricAttributes): MetricAttributes;
}

/** The same measurement by OpenTelemetry's conventions, whose attributes depend only on ours. */
const conventional = (name: string, verb: string, destination: string): Conventional => {
  // The dispatcher passes one object for each topic and outcome, so nearly all are known.
  const known = new WeakMap<MetricAttributes, MetricAttributes>();
  const convert = (attributes: MetricAttributes): MetricAttributes => {
    const { outcome } = attributes;
    return {
      "messaging.system": "oncebox",
      "messaging.operation.name": verb,
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
const messagingConventions: ReadonlyMap<string, Conventional> = new Map([
  ["oncebox.handler.duration", conventional("messaging.process.duration", "process", "topic")],
  ["oncebox.send.duration", conventional("messaging.client.operation.duration", "send", "destination")],
  ["oncebox.claimed", conventional("messaging.client.consumed.messages", "claim", "queue")],
  ["oncebox.enqueued", conventional("messaging.client.sent.messages", "enqueue", "topic")],
]);

type WriteValue = (value: number, attributes: MetricAttributes) => void;

interface Seen {
  windowEndsAt: number;
  inWindow: number;
  /** One value in so many was written at the end of the last window. */
  lastRatio: number;
}

/** With fewer values a second all of them are written. */
const fullRatePerSecond = 500;
const windowMs = 1_000;

/**
 * Writes all values up to 500 a second for the same attributes, and then one in two, three and so on. One value costs an
 * SDK 1–3 µs, as much as a fifth of a message whose handler does nothing, and so many values have the same distribution as
 * a part of them. Chosen by number, not by time: a slow handler is not more likely to be written than a quick one. Only
 * attributes that are the same object are known to be the same, as the dispatcher's are.
 */
export function sampled(write: WriteValue, now: () => number = () => performance.now()): WriteValue {
  const known = new WeakMap<MetricAttributes, Seen>();
  return (value, attributes) => {
    let seen = known.get(attributes);
    if (seen === undefined) {
      seen = { windowEndsAt: 0, inWindow: 0, lastRatio: 1 };
      known.set(attributes, seen);
    }
    const time = now();
    if (time >= seen.windowEndsAt) {
      const isNext = time < seen.windowEndsAt + windowMs;
      seen.lastRatio = isNext ? Math.max(1, Math.ceil(seen.inWindow / fullRatePerSecond)) : 1;
      seen.inWindow = 0;
      seen.windowEndsAt = time + windowMs;
    }
    const ratio = Math.max(seen.lastRatio, Math.ceil(seen.inWindow / fullRatePerSecond));
    if (seen.inWindow++ % ratio === 0) write(value, attributes);
  };
}
