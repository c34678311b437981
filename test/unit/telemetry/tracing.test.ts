import { describe, expect, it } from "vitest";
import {
  inSpan,
  type SpanEnd,
  sentHeaders,
  type Tracing,
  withContextHeaders,
} from "../../../src/base/telemetry.js";
import { InvalidArgumentError } from "../../../src/index.js";
import { openTelemetry } from "../../../src/telemetry/index.js";

const start = { name: "work", kind: "consumer", attributes: {} } as const;
const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

function recording(own: Partial<Tracing> = {}) {
  const ends: SpanEnd[] = [];
  const tracing: Tracing = {
    start: () => ({ run: (work) => work(), end: (end) => void ends.push(end) }),
    headers: () => ({ traceparent }),
    ...own,
  };
  return { tracing, ends };
}

const broken = (): never => {
  throw new Error("broken");
};

describe("spans around work", () => {
  it("ADD-05 end with the kind of an error, never with its text", async () => {
    const { tracing, ends } = recording();
    const work = async () => {
      throw new RangeError("card 4242");
    };
    await expect(inSpan(tracing, start, work)).rejects.toThrow("card 4242");
    expect(ends).toEqual([{ error: "RangeError" }]);
  });

  it.each<[string, Partial<Tracing>]>([
    ["cannot be started", { start: broken }],
    ["cannot be entered", { start: () => ({ run: broken, end: () => {} }) }],
    ["cannot be ended", { start: () => ({ run: (work) => work(), end: broken }) }],
  ])("ADD-05 work is done once where a span %s", async (_, own) => {
    const { tracing } = recording(own);
    let calls = 0;
    expect(await inSpan(tracing, start, async () => ++calls)).toBe(1);
    await expect(inSpan(tracing, start, async () => broken())).rejects.toThrow("broken");
  });

  it("ADD-05 an error of the work is not taken for one of the span", async () => {
    let calls = 0;
    const failing = () => {
      calls++;
      throw new Error("work");
    };
    await expect(inSpan(recording().tracing, start, failing)).rejects.toThrow("work");
    expect(calls).toBe(1);
  });
});

describe("the context in headers", () => {
  const { tracing } = recording();
  const many = Object.fromEntries(Array.from({ length: 63 }, (_, index) => [`h${index}`, ""]));

  it("ADD-05 is added, and replaces nothing when a message is enqueued", () => {
    expect(withContextHeaders(tracing, null)).toEqual({ traceparent });
    expect(withContextHeaders(tracing, { a: "1" })).toEqual({ a: "1", traceparent });
    expect(withContextHeaders(tracing, { Traceparent: "own" })).toEqual({ Traceparent: "own" });
    expect(withContextHeaders(tracing, { tracestate: "own=1" })).toEqual({ tracestate: "own=1" });
  });

  it("ADD-05 on the way out it takes the place of the one that led here", () => {
    const led = { a: "1", Traceparent: "earlier", tracestate: "earlier=1" };
    expect(sentHeaders(tracing, led)).toEqual({ a: "1", traceparent });
    expect(sentHeaders(recording({ headers: () => ({}) }).tracing, led)).toBe(led);
    expect(sentHeaders(recording({ headers: broken }).tracing, led)).toBe(led);
  });

  it("MSG-09 a receiver takes 64 headers, so none are added to 63", () => {
    expect(withContextHeaders(tracing, many)).toBe(many);
    expect(sentHeaders(tracing, many)).toBe(many);
  });
});

describe("the options of openTelemetry", () => {
  it("are checked, all problems in one error", () => {
    const make = () => openTelemetry({ meter: {} as never, tracer: {} as never });
    expect(make).toThrow(InvalidArgumentError);
    expect(make).toThrow("openTelemetry: meter must be a Meter; tracer must be a Tracer.");
    expect(() => openTelemetry({ metre: 1 } as never)).toThrow("metre");
  });

  it("without an SDK nothing is measured and nothing is stored", () => {
    const { metrics, tracing } = openTelemetry();
    metrics.count("oncebox.acked", 1, { queue: "inbox" });
    expect(tracing.headers()).toEqual({});
    expect(tracing.start(start).run(() => tracing.headers())).toEqual({});
  });
});
