import {
  type Context,
  context,
  type Link,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import type { SpanEnd, SpanStart, Tracing } from "../base/tracing.js";
import { contextFrom, headersOf } from "./trace-context.js";

const kinds = { server: SpanKind.SERVER, consumer: SpanKind.CONSUMER, producer: SpanKind.PRODUCER } as const;

/** Spans of a tracer. The current one is kept by OpenTelemetry's context manager, so a handler's own spans are its children. */
export const openTelemetryTracing = (tracerOf: () => Tracer): Tracing => ({
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
