import { jsonLine } from "../../base/logger.js";
import type { MetricAttributes, Metrics } from "../../base/telemetry.js";
import { InvalidArgumentError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import { metricTable } from "../../telemetry/metric-table.js";

/** Options of metrics in CloudWatch's embedded format. */
export interface EmfMetricsOptions {
  /** The namespace in CloudWatch: "oncebox" by default. */
  readonly namespace?: string;
  /**
   * The attributes that become dimensions; all by default. CloudWatch bills each combination of name and dimensions as a
   * metric. The others are fields of the line, for queries in Logs Insights.
   */
  readonly dimensions?: readonly string[];
  /** Takes one line; the standard output by default, which Lambda sends to CloudWatch Logs. */
  readonly write?: (line: string) => void;
  /** For tests: milliseconds since 1970. */
  readonly now?: () => number;
}

/**
 * Metrics for CloudWatch without a collector: lines in the embedded metric format, which CloudWatch Logs turns into metrics.
 * What is measured in one turn of the event loop is one line for each set of attributes, written before the function can
 * return.
 *
 * @example
 * export default defineApp({ metrics: emfMetrics(), handlers });
 */
export function emfMetrics(options: EmfMetricsOptions = {}): Required<Metrics> {
  const { namespace, write, now, isDimension } = resolved(options);
  let pending = new Map<string, Pending>();

  const flush = (): void => {
    const lines = [...pending.values()];
    pending = new Map();
    for (const line of lines) {
      try {
        write(`${jsonLine(embedded(line, namespace, isDimension, now()))}\n`);
      } catch {
        // the measurements are lost; nobody is there to catch what a microtask throws
      }
    }
  };

  const record = (
    name: string,
    value: number,
    attributes: MetricAttributes,
    unit: Unit,
    join: (values: number[], value: number) => void,
  ): void => {
    if (!Number.isFinite(value)) return;
    if (pending.size === 0) queueMicrotask(flush);
    const key = JSON.stringify(attributes);
    const line = pending.get(key) ?? { attributes, values: new Map() };
    pending.set(key, line);
    const entry = line.values.get(name);
    if (entry === undefined) line.values.set(name, { unit, values: [value] });
    else join(entry.values, value);
    const isFull = line.values.size >= maxValues || line.values.get(name)!.values.length >= maxValues;
    if (isFull) flush();
  };

  return {
    count: (name, value, attributes) => record(name, value, attributes, "Count", add),
    duration: (name, ms, attributes) => record(name, ms, attributes, "Milliseconds", append),
    gauge: (name, value, attributes) => record(name, value, attributes, unitOf(name), replace),
    histogram: (name, value, attributes) => record(name, value, attributes, unitOf(name), append),
  };
}

type Unit = "Count" | "Milliseconds";

/** The values of one set of attributes, by name. */
interface Pending {
  readonly attributes: MetricAttributes;
  readonly values: Map<string, { readonly unit: Unit; readonly values: number[] }>;
}

/** Limits of the format, for one line. */
const maxValues = 100;
const maxDimensions = 30;

const unitOf = (name: string): Unit => (metricTable[name]?.unit === "ms" ? "Milliseconds" : "Count");

const add = (values: number[], value: number): void => {
  values[0]! += value;
};
const append = (values: number[], value: number): void => void values.push(value);
const replace = (values: number[], value: number): void => {
  values[0] = value;
};

function embedded(
  { attributes, values }: Pending,
  namespace: string,
  isDimension: (name: string) => boolean,
  timestamp: number,
): object {
  const fields = Object.entries(attributes).map(([name, value]) => [name, String(value)] as const);
  const dimensions = fields.filter(([name, value]) => isDimension(name) && dimensionText(value) !== "");
  const metrics = [...values].map(([Name, { unit: Unit }]) => ({ Name, Unit }));
  return {
    _aws: {
      Timestamp: timestamp,
      CloudWatchMetrics: [
        {
          Namespace: namespace,
          Dimensions: [dimensions.slice(0, maxDimensions).map(([name]) => name)],
          Metrics: metrics,
        },
      ],
    },
    ...Object.fromEntries(fields),
    ...Object.fromEntries(dimensions.map(([name, value]) => [name, dimensionText(value)])),
    ...Object.fromEntries(
      [...values].map(([name, { values: all }]) => [name, all.length === 1 ? all[0] : all]),
    ),
  };
}

/** A dimension's value has up to 1,024 printable ASCII characters, one of them not a space, and no colon first. */
const dimensionText = (value: string): string =>
  value
    .replace(/[^\x20-\x7e]/g, "?")
    .replace(/^:+/, "")
    .slice(0, 1_024)
    .trim();

function resolved(options: EmfMetricsOptions) {
  refuseUnknown(options, ["namespace", "dimensions", "write", "now"], "emfMetrics");
  const { namespace = "oncebox", dimensions, write = writeToStdout, now = Date.now } = options;
  const isNamespace = typeof namespace === "string" && /^(?!AWS\/)[\w./#:-]{1,255}$/.test(namespace);
  const isList = dimensions === undefined || (Array.isArray(dimensions) && dimensions.every(isText));
  const problems = [
    isNamespace || 'namespace must have 1 to 255 letters, digits or . - _ / # :, and not begin with "AWS/"',
    isList || "dimensions must be a list of names",
    typeof write === "function" || "write must be a function",
  ].filter((problem) => problem !== true);
  if (problems.length > 0) throw new InvalidArgumentError(`emfMetrics: ${problems.join("; ")}.`);
  const isDimension = (name: string): boolean => dimensions === undefined || dimensions.includes(name);
  return { namespace, write, now, isDimension };
}

const isText = (value: unknown): boolean => typeof value === "string" && value !== "";

const writeToStdout = (line: string): void => void process.stdout.write(line);
