import { describe, expect, it } from "vitest";
import { emfMetrics } from "../../../src/adapters/aws/index.js";
import { InvalidArgumentError } from "../../../src/index.js";

type Json = Readonly<Record<string, unknown>>;

const units =
  /^(Seconds|Microseconds|Milliseconds|(Kilo|Mega|Giga|Tera)?(Bytes|Bits)(\/Second)?|Percent|Count(\/Second)?|None)$/;

/** The rules of CloudWatch's specification of the embedded metric format. Returns what is wrong with a document. */
function violations(document: Json): readonly string[] {
  const found: string[] = [];
  const rule = (isKept: boolean, text: string): void => void (isKept || found.push(text));
  const isTextOf = (value: unknown, most: number) =>
    typeof value === "string" && value.length >= 1 && value.length <= most;
  const { Timestamp, CloudWatchMetrics } = document._aws as Json;
  rule(Number.isInteger(Timestamp), "Timestamp is a whole number of milliseconds");
  rule(Array.isArray(CloudWatchMetrics), "CloudWatchMetrics is an array");
  for (const directive of CloudWatchMetrics as readonly Json[]) {
    const { Namespace, Dimensions, Metrics } = directive as Record<string, readonly unknown[]>;
    rule(isTextOf(Namespace, 1_024), "Namespace has 1 to 1,024 characters");
    rule(Dimensions!.length >= 1, "there is a set of dimensions");
    for (const set of Dimensions as readonly (readonly string[])[]) {
      rule(set.length <= 30, "a set has at most 30 dimensions");
      for (const name of set) {
        rule(isTextOf(name, 250), "a dimension's name has 1 to 250 characters");
        rule(isTextOf(document[name], 1_024), "a dimension is a text on the root");
        rule(/^[\x20-\x7e]+$/.test(String(document[name])), "a dimension's value is printable ASCII");
        rule(!String(document[name]).startsWith(":"), "a dimension's value does not begin with a colon");
      }
    }
    rule(Metrics!.length >= 1 && Metrics!.length <= 100, "there are 1 to 100 metrics");
    for (const { Name, Unit } of Metrics as readonly { Name: string; Unit: string }[]) {
      rule(isTextOf(Name, 1_024), "a metric's name has 1 to 1,024 characters");
      rule(units.test(Unit), "the unit is one of CloudWatch's");
      const target = document[Name];
      const values = Array.isArray(target) ? target : [target];
      rule(values.length >= 1 && values.length <= 100, "a metric has 1 to 100 values");
      rule(values.every(Number.isFinite), "a metric's values are numbers on the root");
    }
  }
  return found;
}

async function written(
  measure: (metrics: ReturnType<typeof emfMetrics>) => void,
  options = {},
): Promise<readonly Json[]> {
  const lines: string[] = [];
  measure(emfMetrics({ write: (line) => lines.push(line), now: () => 1_900_000_000_000, ...options }));
  await Promise.resolve();
  expect(lines.every((line) => line.endsWith("}\n") && line.indexOf("\n") === line.length - 1)).toBe(true);
  return lines.map((line) => JSON.parse(line) as Json);
}

describe("metrics in CloudWatch's embedded metric format", () => {
  it("ADD-05 what is measured in one turn of the event loop is one line for each set of attributes", async () => {
    const lines = await written((metrics) => {
      metrics.count("oncebox.handled", 2, { topic: "a", outcome: "ok" });
      metrics.count("oncebox.handled", 3, { topic: "a", outcome: "ok" });
      metrics.duration("oncebox.handler.duration", 12.5, { topic: "a", outcome: "ok" });
      metrics.duration("oncebox.handler.duration", 7, { topic: "a", outcome: "ok" });
      metrics.gauge("oncebox.queue.oldest_due_age", 1, { queue: "inbox" });
      metrics.gauge("oncebox.queue.oldest_due_age", 4_000, { queue: "inbox" });
    });
    expect(lines).toEqual([
      {
        _aws: {
          Timestamp: 1_900_000_000_000,
          CloudWatchMetrics: [
            {
              Namespace: "oncebox",
              Dimensions: [["topic", "outcome"]],
              Metrics: [
                { Name: "oncebox.handled", Unit: "Count" },
                { Name: "oncebox.handler.duration", Unit: "Milliseconds" },
              ],
            },
          ],
        },
        topic: "a",
        outcome: "ok",
        "oncebox.handled": 5,
        "oncebox.handler.duration": [12.5, 7],
      },
      expect.objectContaining({ queue: "inbox", "oncebox.queue.oldest_due_age": 4_000 }),
    ]);
    expect(lines.flatMap(violations)).toEqual([]);
  });

  it("ADD-05 lines keep the format's rules, whatever the attributes hold", async () => {
    const many = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`name${index}`, "value"]));
    const lines = await written((metrics) => {
      for (let ms = 0; ms < 250; ms++) metrics.duration("d", ms, { topic: "a" });
      for (let index = 0; index < 250; index++) metrics.count(`c${index}`, 1, { topic: "b" });
      metrics.count("c", 1, { topic: "", source: "日本", queue: ":x", isRetry: true, attempt: 3 });
      metrics.count("c", 1, { topic: "t".repeat(3_000) });
      metrics.count("c", 1, many);
      metrics.count("c", 1, {});
      metrics.count("c", Number.NaN, { topic: "no number" });
    });
    expect(lines.flatMap(violations)).toEqual([]);
    const durations = lines.flatMap((line) => (line.topic === "a" ? (line.d as number[]) : []));
    expect(durations).toEqual(Array.from({ length: 250 }, (_, ms) => ms));
    expect(lines.flatMap((line) => Object.keys(line).filter((name) => /^c\d/.test(name)))).toHaveLength(250);
    expect(JSON.stringify(lines)).not.toContain("no number");
  });

  it("the rules find a document that breaks them", () => {
    const broken = {
      _aws: {
        Timestamp: 1.5,
        CloudWatchMetrics: [{ Namespace: "", Dimensions: [["gone"]], Metrics: [{ Name: "m", Unit: "ms" }] }],
      },
      m: "1",
    };
    expect(violations(broken)).toHaveLength(5);
  });

  it("ADD-05 only the chosen attributes are dimensions; the others stay fields", async () => {
    const [line] = await written((metrics) => metrics.count("c", 1, { topic: "a", outcome: "ok" }), {
      dimensions: ["outcome"],
      namespace: "Shop/Orders",
    });
    expect(line).toMatchObject({ topic: "a", outcome: "ok" });
    expect(JSON.stringify(line!._aws)).toContain('"Dimensions":[["outcome"]]');
    expect(JSON.stringify(line!._aws)).toContain("Shop/Orders");
  });

  it("a stream that cannot be written to throws nothing", async () => {
    const write = () => {
      throw new Error("EPIPE");
    };
    emfMetrics({ write }).count("c", 1, {});
    await new Promise(setImmediate);
  });

  it("all problems of the options are in one error", () => {
    const make = () =>
      emfMetrics({ namespace: "AWS/Lambda", dimensions: "topic" as never, write: 1 as never });
    expect(make).toThrow(InvalidArgumentError);
    expect(make).toThrow(/namespace .*; dimensions .*; write /);
  });
});
