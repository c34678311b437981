import { context } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { PrometheusSerializer } from "@opentelemetry/exporter-prometheus";
import {
  AggregationTemporality,
  type DataPoint,
  InMemoryMetricExporter,
  MeterProvider,
  type MetricData,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  type SpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { afterAll, beforeAll } from "vitest";

/** Nothing is exported before a test asks for it. */
const never = 2 ** 31 - 1;

/** OpenTelemetry's own SDK, which keeps in memory what an application would export. */
export function openTelemetrySdk({ processors = [] }: { processors?: readonly SpanProcessor[] } = {}) {
  const kept = new InMemorySpanExporter();
  const tracers = new BasicTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(kept), ...processors],
  });
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: never });
  const meters = new MeterProvider({ readers: [reader] });
  const tracer = tracers.getTracer("test");
  return {
    tracer,
    /** For `openTelemetry`. */
    options: { tracer, meter: meters.getMeter("test") },
    spans: (): readonly ReadableSpan[] => kept.getFinishedSpans(),
    /** As Prometheus reads it. */
    async prometheusText(): Promise<string> {
      await meters.forceFlush();
      return new PrometheusSerializer().serialize(exporter.getMetrics().at(-1)!);
    },
    async metrics(): Promise<ReadonlyMap<string, MetricData>> {
      await meters.forceFlush();
      const last = exporter.getMetrics().at(-1);
      const all = last?.scopeMetrics.flatMap((scope) => scope.metrics) ?? [];
      return new Map(all.map((metric) => [metric.descriptor.name, metric]));
    },
  };
}

export type Sdk = ReturnType<typeof openTelemetrySdk>;

export const pointsOf = (metric: MetricData | undefined): readonly DataPoint<unknown>[] =>
  (metric?.dataPoints ?? []) as readonly DataPoint<unknown>[];

/** The context manager is the process's one: an application registers it together with its SDK. */
export function useContextManager(): void {
  beforeAll(() => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  });
  afterAll(() => context.disable());
}

/** What a collector would show of a span. */
export const spanText = (span: ReadableSpan): string =>
  JSON.stringify([span.name, span.attributes, span.status, span.events, span.links]);
