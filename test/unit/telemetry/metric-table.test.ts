import { beforeAll, describe, expect, it } from "vitest";
import type { MetricAttributes, Metrics } from "../../../src/index.js";
import { openTelemetry } from "../../../src/telemetry/index.js";
import { metricTable } from "../../../src/telemetry/metric-table.js";
import { readDocument } from "../../support/markdown.js";
import { openTelemetrySdk, pointsOf, type Sdk } from "../../support/open-telemetry-sdk.js";
import { measuredWork } from "./measured-work.js";

interface Measurement {
  readonly kind: keyof Metrics;
  readonly name: string;
  readonly attributes: MetricAttributes;
}

const names = Object.keys(metricTable).sort();
/** Made of ours by `openTelemetry`. */
const byOpenTelemetry = ["messaging.client.consumed.messages", "messaging.client.sent.messages"];

describe("the table of metrics", () => {
  const measured: Measurement[] = [];
  let sdk: Sdk;
  let exported: Awaited<ReturnType<Sdk["metrics"]>>;

  beforeAll(async () => {
    sdk = openTelemetrySdk();
    const { metrics } = openTelemetry(sdk.options);
    const recording =
      (kind: keyof Metrics) => (name: string, value: number, attributes: MetricAttributes) => {
        measured.push({ kind, name, attributes });
        metrics[kind](name, value, attributes);
      };
    await measuredWork({
      count: recording("count"),
      duration: recording("duration"),
      gauge: recording("gauge"),
      histogram: recording("histogram"),
    });
    exported = await sdk.metrics();
  });

  it("MSG-13 MSG-20 ADD-05 has every name that is emitted, and none that is not", () => {
    const emitted = new Set(measured.map(({ name }) => name));
    expect([...emitted, ...byOpenTelemetry].sort()).toEqual(names);
    expect([...exported.keys()].sort()).toEqual(names);
  });

  it("ADD-05 has the kind and the attributes of each", () => {
    for (const { kind, name, attributes } of measured) {
      expect([name, kind]).toEqual([name, metricTable[name]!.kind]);
      expect([
        name,
        Object.keys(attributes).filter((key) => !metricTable[name]!.attributes.includes(key)),
      ]).toEqual([name, []]);
    }
    for (const [name, { attributes }] of Object.entries(metricTable)) {
      const seen = new Set(pointsOf(exported.get(name)).flatMap((point) => Object.keys(point.attributes)));
      expect([name, [...seen].sort()]).toEqual([name, [...attributes].sort()]);
    }
  });

  it("ADD-05 OpenTelemetry gets durations and ages in seconds, except where a name says milliseconds", () => {
    for (const [name, { unit }] of Object.entries(metricTable)) {
      const wanted = unit === "ms" && !name.endsWith("_ms") ? "s" : unit;
      expect([name, exported.get(name)!.descriptor.unit]).toEqual([name, wanted]);
    }
  });

  it("MSG-20 docs/telemetry.md lists the same names, kinds and attributes", () => {
    const rows = readDocument("docs/telemetry.md")
      .split("\n")
      .map((line) => /^\| `([^`]+)` \| (count|duration|gauge|histogram) \| ([^|]*) \|/.exec(line))
      .flatMap((match) => (match === null ? [] : [[match[1]!, match[2]!, match[3]!.trim()]]));
    const expected = Object.entries(metricTable).map(([name, { kind, attributes }]) => [
      name,
      kind,
      attributes.map((attribute) => `\`${attribute}\``).join(", "),
    ]);
    expect(rows.sort()).toEqual(expected.sort());
  });
});
