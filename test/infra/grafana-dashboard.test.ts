import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { openTelemetry } from "../../src/telemetry/index.js";
import { metricTable } from "../../src/telemetry/metric-table.js";
import { root } from "../support/markdown.js";
import { openTelemetrySdk } from "../support/open-telemetry-sdk.js";
import { measuredWork } from "../unit/telemetry/measured-work.js";

interface Dashboard {
  readonly templating: { readonly list: readonly { readonly name: string; readonly query: unknown }[] };
  readonly panels: readonly {
    readonly id: number;
    readonly title: string;
    readonly type: string;
    readonly gridPos: { readonly x: number; readonly w: number };
    readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
  }[];
}

const dashboard = JSON.parse(readFileSync(join(root, "infra/grafana/oncebox.json"), "utf8")) as Dashboard;
const targets = dashboard.panels.flatMap((panel) => panel.targets ?? []);

/** Each name that a query reads, as a pattern: collectors add the unit to a name, OpenTelemetry's exporter does not. */
const seriesIn = (expr: string) =>
  [...expr.matchAll(/\b((?:oncebox|rf|messaging)_[\w()?]+)/g)].map(([, name]) => name!.replace(/\($/, ""));
const labelsIn = ({ expr, legendFormat }: (typeof targets)[number]) =>
  [
    ...[...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list]) => list!.split(/,\s*/)),
    ...[...expr.matchAll(/(\w+)=~/g)].map(([, name]) => name!).filter((name) => name !== "__name__"),
    ...[...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, name]) => name!),
  ].filter((name) => name !== "job"); // which Prometheus adds

describe("the Grafana dashboard", () => {
  /** The labels of each series, as OpenTelemetry's exporter for Prometheus writes them. */
  const exported = new Map<string, Set<string>>();

  const exportedBy = (series: string) =>
    [...exported.keys()].filter((name) => new RegExp(`^${series}$`).test(name));

  beforeAll(async () => {
    const sdk = openTelemetrySdk();
    await measuredWork(openTelemetry(sdk.options).metrics);
    for (const line of (await sdk.prometheusText()).split("\n")) {
      const [, name, labels = ""] = /^(\w+)(?:\{(.*)\})? /.exec(line) ?? [];
      if (name === undefined) continue;
      const known = exported.get(name) ?? new Set();
      for (const [, label] of labels.matchAll(/(\w+)="/g)) known.add(label!);
      exported.set(name, known);
    }
  });

  it("ADD-05 names only metrics that exist, and labels that they have", () => {
    expect(targets.length).toBeGreaterThan(20);
    for (const target of targets) {
      const [series, ...more] = seriesIn(target.expr);
      expect([target.expr, more]).toEqual([target.expr, []]);
      const found = exportedBy(series!);
      expect([series, found.length]).toEqual([series, 1]);
      const unknown = labelsIn(target).filter((label) => !exported.get(found[0]!)!.has(label));
      expect([target.expr, unknown]).toEqual([target.expr, []]);
    }
    const queries = JSON.stringify(dashboard.templating.list.map(({ query }) => query));
    for (const series of seriesIn(queries)) expect([series, exportedBy(series).length]).toEqual([series, 1]);
  });

  it("ADD-05 finds durations and ages also where a collector has added their unit to the name", () => {
    const units = { s: "seconds", ms: "milliseconds" } as const;
    const all = targets.flatMap(({ expr }) => seriesIn(expr));
    for (const [name, { unit, kind }] of Object.entries(metricTable)) {
      if (unit !== "ms") continue;
      const plain = name.replaceAll(".", "_");
      const bucket = kind === "duration" ? "_bucket" : "";
      const read = all.filter(
        (series) => series.startsWith(`${plain}(`) || series.startsWith(`${plain}_bucket`),
      );
      const suffix = units[name.endsWith("_ms") ? "ms" : "s"];
      for (const series of read)
        expect([series, new RegExp(`^${series}$`).test(`${plain}_${suffix}${bucket}`)]).toEqual([
          series,
          true,
        ]);
    }
    expect(all.filter((series) => series.includes("("))).toHaveLength(7);
  });

  it("every panel has an id of its own and fits into the grid; queries have balanced brackets", () => {
    const ids = dashboard.panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { gridPos } of dashboard.panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
    for (const { expr } of targets)
      for (const [open, close] of ["()", "[]", "{}"])
        expect(expr.split(open!).length).toBe(expr.split(close!).length);
  });
});
