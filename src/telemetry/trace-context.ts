import { createTraceState, isSpanContextValid, type SpanContext } from "@opentelemetry/api";
import type { TracedHeaders } from "../base/tracing.js";

/** A later version may have more fields behind the flags. */
const pattern = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/**
 * The context in W3C headers; undefined where there is none or it is not valid. Read and written here, and not by the
 * global propagator: what is stored must be readable whatever the propagator of a later deployment is.
 */
export function contextFrom(headers: TracedHeaders | null | undefined): SpanContext | undefined {
  const match = pattern.exec(headerIn(headers, "traceparent") ?? "");
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
