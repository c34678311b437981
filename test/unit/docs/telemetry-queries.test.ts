import { describe, expect, it } from "vitest";
import { emfMetrics } from "../../../src/adapters/aws/emf-metrics.js";
import { metricTable } from "../../../src/telemetry/metric-table.js";
import { codeBlocks, readDocument } from "../../support/markdown.js";

const page = "docs/telemetry.md";

/** The metric that a query asks for, and the names that it groups by or reads as attributes. */
const metricOf = (query: string): string => /oncebox\.[a-z_.]+[a-z]/.exec(query)![0];

describe("the queries of docs/telemetry.md", () => {
  /** What the page's own `emfMetrics` writes for a measurement of this metric, with all its attributes. */
  const emfLine = async (name: string) => {
    const [, given = ""] = /emfMetrics\((\{.*?\})\)/.exec(readDocument(page))!;
    const options = JSON.parse(given.replace(/(\w+):/g, '"$1":')) as { dimensions: string[] };
    const lines: string[] = [];
    const metrics = emfMetrics({ ...options, write: (line) => void lines.push(line) });
    const { kind, attributes } = metricTable[name]!;
    metrics[kind](name, 1, Object.fromEntries(attributes.map((attribute) => [attribute, "x"])));
    await Promise.resolve(); // the line is written at the end of the turn
    return JSON.parse(lines[0]!);
  };

  it("ADD-05 Metrics Insights uses the namespace, metric and dimensions that emfMetrics writes", async () => {
    const [query = "", ...others] = codeBlocks(page, "sql", "## CloudWatch");
    expect(others).toEqual([]);
    const [, namespace, dimensions = ""] = /SCHEMA\("(.*?)", (.*?)\)/.exec(query)!;
    const [directive] = (await emfLine(metricOf(query)))._aws.CloudWatchMetrics;
    expect(directive).toMatchObject({
      Namespace: namespace,
      Dimensions: [dimensions.split(", ")],
      Metrics: [{ Name: metricOf(query) }],
    });
    expect(dimensions.split(", ")).toContain(/GROUP BY (\w+)/.exec(query)![1]);
  });

  it("ADD-05 Logs Insights uses fields that emfMetrics writes", async () => {
    const [query = ""] = codeBlocks(page, "text", "## CloudWatch");
    const line = await emfLine(metricOf(query));
    expect(line[metricOf(query)]).toBe(1);
    const [, fields = ""] = / by (.*?), bin/.exec(query)!;
    expect(fields.split(", ")).toEqual(metricTable[metricOf(query)]!.attributes);
    for (const field of fields.split(", ")) expect(line).toHaveProperty([field], "x");
    expect(line._aws.CloudWatchMetrics[0].Dimensions).toEqual([["queue"]]); // the page says that reason is none
  });

  it("ADD-05 Application Insights uses a metric, its attributes, and span attributes that the page lists", () => {
    const [metrics = "", trace = ""] = codeBlocks(page, "kusto", "## Application Insights");
    const { attributes, kind } = metricTable[metricOf(metrics)]!;
    expect(kind).toBe("duration");
    expect([...metrics.matchAll(/customDimensions\.(\w+)/g)].map(([, name]) => name)).toEqual(attributes);
    const asked = [...trace.matchAll(/customDimensions\["(.*?)"\]/g)].map(([, name]) => name!);
    expect(asked).toHaveLength(2);
    const [, listed = ""] = readDocument(page).split("**What spans hold.**");
    for (const name of asked) expect(listed).toContain(`\`${name}\``);
  });
});
