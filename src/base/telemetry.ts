/** What a measurement is about. */
export type MetricAttributes = Readonly<Record<string, string | number | boolean>>;

/** Receives measurements and passes them to OpenTelemetry or to a cloud's metrics. */
export interface Metrics {
  count(name: string, value: number, attributes: MetricAttributes): void;
  duration(name: string, ms: number, attributes: MetricAttributes): void;
  /** The present value of something that goes up and down, such as the length of a queue. */
  gauge?(name: string, value: number, attributes: MetricAttributes): void;
  /** A value whose distribution is of interest, such as the retries of a message. Without it `count` gets the value. */
  histogram?(name: string, value: number, attributes: MetricAttributes): void;
}

/** Drops what a metrics sink throws: broken metrics must not fail a message. */
export function guardedMetrics(metrics: Metrics): Required<Metrics> {
  const guard = (write: () => void): void => {
    try {
      write();
    } catch {
      // the measurement is lost
    }
  };
  return {
    count: (name, value, attributes) => guard(() => metrics.count(name, value, attributes)),
    duration: (name, ms, attributes) => guard(() => metrics.duration(name, ms, attributes)),
    gauge: (name, value, attributes) => guard(() => metrics.gauge?.(name, value, attributes)),
    histogram: (name, value, attributes) =>
      guard(() => {
        if (metrics.histogram === undefined) metrics.count(name, value, attributes);
        else metrics.histogram(name, value, attributes);
      }),
  };
}

/** The headers of a message or of a request. */
export type TracedHeaders = Readonly<Record<string, string>>;

/** What a span is about when it starts. */
export interface SpanStart {
  readonly name: string;
  readonly kind: "server" | "consumer" | "producer";
  /** Ids and names that logs have too. Never a payload, a secret or a partition key. */
  readonly attributes: MetricAttributes;
  /** The headers of what caused this work. The span links to the context in them. */
  readonly cause?: TracedHeaders | null | undefined;
  /** The span is also a child of that context. Not for headers that anybody may have sent. */
  readonly isChild?: boolean;
}

/** How a span ended. */
export interface SpanEnd {
  /** The kind of failure: a class of errors, or a word for what happened. Never an error's text. */
  readonly error?: string | undefined;
  readonly attributes?: MetricAttributes;
}

/** A span that is open. */
export interface TraceSpan {
  /** Calls `work`, with this span as the current one until its promise is settled. */
  run<T>(work: () => T): T;
  end(end: SpanEnd): void;
}

/** Makes spans, and carries their context in headers: `openTelemetry()` of `oncebox/telemetry` returns one. */
export interface Tracing {
  start(span: SpanStart): TraceSpan;
  /** `traceparent`, and `tracestate` where there is one, of the current span. Empty without a current span. */
  headers(): TracedHeaders;
}

/** What measures and traces: pass both to whatever takes `metrics` and `tracing`. */
export interface Telemetry {
  readonly metrics?: Metrics | undefined;
  readonly tracing?: Tracing | undefined;
}

/** The span of the handling of one message. Its sender is known, so the span is a child of the one that sent it. */
export const processSpan = (
  topic: string,
  headers: TracedHeaders | null | undefined,
  attributes: MetricAttributes,
): SpanStart => ({
  name: `process ${topic}`,
  kind: "consumer",
  cause: headers,
  isChild: true,
  attributes: {
    "messaging.system": "oncebox",
    "messaging.operation.name": "process",
    "messaging.operation.type": "process",
    "messaging.destination.name": topic,
    ...attributes,
  },
});

/** The headers that carry a context (https://www.w3.org/TR/trace-context/). */
export const traceHeaderNames: readonly string[] = ["traceparent", "tracestate"];

/**
 * Runs `work` in a span. What tracing throws is dropped: it must not fail a message, and `work` is called once in any case.
 */
export async function inSpan<T>(
  tracing: Tracing,
  start: SpanStart,
  work: () => T | Promise<T>,
  endOf: (result: T) => SpanEnd = () => ({}),
): Promise<T> {
  const span = attempt(() => tracing.start(start));
  const end = (of: () => SpanEnd): void => void attempt(() => span?.end(of()));
  try {
    const result = await runIn(span, work);
    end(() => endOf(result));
    return result;
  } catch (error) {
    end(() => ({ error: errorType(error) }));
    throw error;
  }
}

/** The name of an error, for metrics and spans. Its text may quote a payload. */
export function errorType(error: unknown): string {
  const name = (error as { readonly name?: unknown } | null | undefined)?.name;
  return typeof name === "string" && name !== "" ? name.slice(0, 100) : "Error";
}

function runIn<T>(span: TraceSpan | undefined, work: () => T): T {
  if (span === undefined) return work();
  let isCalled = false;
  const called = (): T => {
    isCalled = true;
    return work();
  };
  try {
    return span.run(called);
  } catch (error) {
    if (isCalled) throw error;
    return work();
  }
}

/** The headers with the current context, unless they carry one already: a caller's own context is never replaced. */
export function withContextHeaders<Headers extends TracedHeaders | null | undefined>(
  tracing: Tracing,
  headers: Headers,
): Headers | TracedHeaders {
  const names = Object.keys(headers ?? {});
  const isFull = names.length + traceHeaderNames.length > maxHeaders;
  const own = isFull || names.some(isTraceHeader) ? {} : currentHeaders(tracing);
  return Object.keys(own).length === 0 ? headers : { ...headers, ...own };
}

/** Headers for the way out: the current context takes the place of the one that led here. */
export function sentHeaders(tracing: Tracing, headers: TracedHeaders | null): TracedHeaders | null {
  const own = currentHeaders(tracing);
  const rest = Object.entries(headers ?? {}).filter(([name]) => !isTraceHeader(name));
  if (Object.keys(own).length === 0 || rest.length + traceHeaderNames.length > maxHeaders) return headers;
  return { ...Object.fromEntries(rest), ...own };
}

/** A receiver of messages between services refuses more. */
const maxHeaders = 64;

const isTraceHeader = (name: string): boolean => traceHeaderNames.includes(name.toLowerCase());

const currentHeaders = (tracing: Tracing): TracedHeaders => attempt(() => tracing.headers()) ?? {};

function attempt<T>(call: () => T): T | undefined {
  try {
    return call();
  } catch {
    return undefined; // the trace is incomplete
  }
}
