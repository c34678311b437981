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
    const rows: ResultRow[] = [];
    const before = await dispatcherOfBaseline();
    // First: what other rows have warmed up would be this checkout's code alone.
    if (before !== undefined) {
      const pair: Pair = [off, withTelemetry({}, before)];
      rows.push(await measure("off", "the checkout of before", pair, { atLeast: 0.98 }));
    }
    const without = "the same without";
    rows.push(await measure("metrics", without, [withTelemetry({ metrics }), off], { atLeast: 0.9 }));
    rows.push(await measure("metrics and spans", without, [withTelemetry({ metrics, tracing }), off]));
    return rows;
  } finally {
    await sdk.stop();
  }
};

async function dispatcherOfBaseline(): Promise<MakeDispatcher | undefined> {
  const folder = process.env.ONCEBOX_BENCH_BASELINE;
  if (folder === undefined) return undefined;
  const file = pathToFileURL(`${folder}/src/dispatch/dispatcher.ts`).href;
  return ((await import(file)) as { createDispatcher: MakeDispatcher }).createDispatcher;
}

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
    const result = await compare(perCpuSecond(subject(one)), perCpuSecond(reference(other)), roundsOf(sizes));
    return { database: database.title, unit: "messages/CPU s", ...result, ...row };
  } finally {
    await one.close();
    await other.close();
  }
}

/**
 * The rate by the CPU time of this process: telemetry takes nothing else, and other processes change it little. Where the
 * database is a server, the throughput itself loses less.
 */
const perCpuSecond =
  (contender: Contender): Contender =>
  async (round) => {
    const before = process.cpuUsage();
    const startedAt = performance.now();
    const rate = await contender(round);
    const ms = performance.now() - startedAt;
    const { user, system } = process.cpuUsage(before);
    return (rate * ms * 1_000) / (user + system);
  };

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
