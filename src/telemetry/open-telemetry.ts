import {
  type Context,
  context,
  createTraceState,
  isSpanContextValid,
  type Link,
  type Meter,
  metrics,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import type { Metrics, SpanEnd, SpanStart, TracedHeaders, Tracing } from "../base/telemetry.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown } from "../queue/arguments.js";
import { openTelemetryMetrics } from "./open-telemetry-metrics.js";

/** Options of metrics and traces by OpenTelemetry. */
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

const kinds = { server: SpanKind.SERVER, consumer: SpanKind.CONSUMER, producer: SpanKind.PRODUCER } as const;

/** Spans of a tracer. The current one is kept by OpenTelemetry's context manager, so a handler's own spans are its children. */
const openTelemetryTracing = (tracerOf: () => Tracer): Tracing => ({
  start(given) {
    const around = context.active();
    const cause = contextFrom(given.cause);
    const parent = cause !== undefined && given.isChild ? trace.setSpanContext(around, cause) : around;
    const { name, kind, attributes } = given;
    const links = linksOf(given, cause, around);
    const span = tracerOf().startSpan(name, { kind: kinds[kind], attributes, links }, parent);
    const current = trace.setSpan(parent, span);
    return { run: (work) => context.with(current, work), end: (end) => endSpan(span, end) };
  },
  headers: () => headersOf(trace.getSpanContext(context.active())),
});

/** To the cause; and to the span around it, of a function's invocation say, where the cause is the parent. */
function linksOf({ isChild }: SpanStart, cause: SpanContext | undefined, around: Context): Link[] {
  const invocation = trace.getSpanContext(around);
  if (cause === undefined) return [];
  const isOther = isChild && invocation !== undefined && invocation.spanId !== cause.spanId;
  return isOther ? [{ context: cause }, { context: invocation }] : [{ context: cause }];
}

function endSpan(span: Span, { error, attributes = {} }: SpanEnd): void {
  span.setAttributes(attributes);
  if (error !== undefined) {
    span.setAttribute("error.type", error);
    span.setStatus({ code: SpanStatusCode.ERROR });
  }
  span.end();
}

/** A later version may have more fields behind the flags. */
const traceparentPattern = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/**
 * The context in W3C headers; undefined where there is none or it is not valid. Read and written here, and not by the
 * global propagator: what is stored must be readable whatever the propagator of a later deployment is.
 */
export function contextFrom(headers: TracedHeaders | null | undefined): SpanContext | undefined {
  const match = traceparentPattern.exec(headerIn(headers, "traceparent") ?? "");
  if (match === null || (match[1] === "00" && match[5] !== undefined)) return undefined;
  const state = headerIn(headers, "tracestate");
  const found: SpanContext = {
    traceId: match[2]!,
    spanId: match[3]!,
    traceFlags: Number.parseInt(match[4]!, 16) & 1,
    isRemote: true,
    ...(state === undefined ? {} : { traceState: createTraceState(state) }),
  };
  return isSpanContextValid(found) ? found : undefined;
}

export function headersOf(context: SpanContext | undefined): TracedHeaders {
  if (context === undefined || !isSpanContextValid(context)) return {};
  const { traceId, spanId, traceFlags, traceState } = context;
  const state = traceState?.serialize();
  const flags = (traceFlags & 1).toString().padStart(2, "0");
  return { traceparent: `00-${traceId}-${spanId}-${flags}`, ...(state ? { tracestate: state } : {}) };
}

function headerIn(headers: TracedHeaders | null | undefined, wanted: string): string | undefined {
  const own = headers?.[wanted];
  if (own !== undefined || headers === null || headers === undefined) return own;
  return Object.entries(headers).find(([name]) => name.toLowerCase() === wanted)?.[1];
}
