import { type Meter, metrics, type Tracer, trace } from "@opentelemetry/api";
import type { Metrics } from "../base/metrics.js";
import type { Tracing } from "../base/tracing.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown } from "../queue/arguments.js";
import { openTelemetryMetrics } from "./open-telemetry-metrics.js";
import { openTelemetryTracing } from "./open-telemetry-tracing.js";

export interface OpenTelemetryOptions {
  /** The global provider's by default. */
  readonly meter?: Meter;
  /** The global provider's by default. */
  readonly tracer?: Tracer;
}

/**
 * Metrics and traces by OpenTelemetry, for everything that takes `metrics` and `tracing`. Start the SDK before the first
 * message.
 *
 * @example
 * export default defineApp({ ...openTelemetry(), handlers });
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): {
  readonly metrics: Required<Metrics>;
  readonly tracing: Tracing;
} {
  refuseUnknown(options, ["meter", "tracer"], "openTelemetry");
  const { meter, tracer } = options;
  const problems = [
    meter === undefined || typeof meter.createCounter === "function" || "meter must be a Meter",
    tracer === undefined || typeof tracer.startSpan === "function" || "tracer must be a Tracer",
  ].filter((problem) => problem !== true);
  if (problems.length > 0) throw new InvalidArgumentError(`openTelemetry: ${problems.join("; ")}.`);
  return {
    metrics: openTelemetryMetrics(() => meter ?? metrics.getMeter("oncebox")),
    tracing: openTelemetryTracing(() => tracer ?? trace.getTracer("oncebox")),
  };
}
