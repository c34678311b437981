import type { Meter } from "@opentelemetry/api";
import type { MetricAttributes, Metrics } from "../base/metrics.js";
import { messagingConventions } from "./messaging-conventions.js";
import { type MetricEntry, metricTable } from "./metric-table.js";
import { thinned } from "./thinned.js";

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
    const thin = (write: Write): Write => (kind === "duration" ? thinned(write) : write);
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
