import { pathToFileURL } from "node:url";
import { context } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, BatchSpanProcessor, type SpanExporter } from "@opentelemetry/sdk-trace-base";
import type { createDispatcher, Telemetry } from "../../src/index.js";
import { openTelemetry } from "../../src/telemetry/index.js";
import { type Contender, compare } from "../measure.js";
import type { ResultRow, Target } from "../report.js";
import { connections, dispatching, roundsOf, sliceOf, slices } from "./dispatch.js";
import type { Scenario, ScenarioInput } from "./scenario.js";

type MakeDispatcher = typeof createDispatcher;

/**
 * What telemetry costs a dispatcher whose handlers do nothing: metrics, metrics and spans, and, against the checkout in
 * ONCEBOX_BENCH_BASELINE, telemetry that is off. The SDK is OpenTelemetry's own.
 */
export const telemetry: Scenario = async (input) => {
  const sdk = startSdk();
  const { metrics, tracing } = openTelemetry({ meter: sdk.meter, tracer: sdk.tracer });
  const off = (inbox: Inbox): Contender => dispatching(inbox, sliceOf(input.sizes));
  const withTelemetry = (on: Telemetry, make?: MakeDispatcher) => (inbox: Inbox) =>
    dispatching(inbox, sliceOf(input.sizes), on, make);
  const measure = (name: string, ratioTo: string, pair: Pair, target?: Target) =>
    measured(input, pair, { name: `telemetry: ${name}`, ratioTo, ...(target && { target }) });
  try {
    const rows = [
      await measure("metrics", "the same without", [withTelemetry({ metrics }), off], { atLeast: 0.9 }),
      await measure("metrics and spans", "the same without", [withTelemetry({ metrics, tracing }), off]),
    ];
    const baseline = process.env.ONCEBOX_BENCH_BASELINE;
    if (baseline === undefined) return rows;
    const { createDispatcher: before } = (await import(
      pathToFileURL(`${baseline}/src/dispatch/dispatcher.ts`).href
    )) as { createDispatcher: MakeDispatcher };
    const beforeIt = withTelemetry({}, before);
    return [...rows, await measure("off", "the checkout of before", [off, beforeIt], { atLeast: 0.98 })];
  } finally {
    await sdk.stop();
  }
};

type Inbox = Parameters<typeof dispatching>[0];
type Pair = readonly [subject: (inbox: Inbox) => Contender, reference: (inbox: Inbox) => Contender];

async function measured(
  { database, sizes }: ScenarioInput,
  [subject, reference]: Pair,
  row: Pick<ResultRow, "name" | "ratioTo" | "target">,
): Promise<ResultRow> {
  const pending = sliceOf(sizes) * (slices + sizes.warmUps) + 2_000;
  const open = () => database.openInbox(connections, { pending, done: 0 });
  const [one, other] = [await open(), await open()];
  try {
    const result = await compare(subject(one), reference(other), roundsOf(sizes));
    return { database: database.title, unit: "messages/s", ...result, ...row };
  } finally {
    await one.close();
    await other.close();
  }
}

/** As an application has it: exports in the background. What is exported is dropped. */
function startSdk() {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.DELTA);
  const meters = new MeterProvider({
    readers: [new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 1_000 })],
  });
  const dropSpans: SpanExporter = {
    export: (_spans, done) => done({ code: 0 }),
    shutdown: async () => {},
  };
  const tracers = new BasicTracerProvider({ spanProcessors: [new BatchSpanProcessor(dropSpans)] });
  const contexts = new AsyncLocalStorageContextManager().enable();
  context.setGlobalContextManager(contexts);
  return {
    meter: meters.getMeter("bench"),
    tracer: tracers.getTracer("bench"),
    async stop() {
      await meters.shutdown();
      await tracers.shutdown();
      context.disable();
    },
  };
}
