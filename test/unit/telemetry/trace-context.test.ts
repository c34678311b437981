import { describe, expect, it } from "vitest";
import { contextFrom, headersOf } from "../../../src/telemetry/open-telemetry.js";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const spanId = "b7ad6b7169203331";

describe("the context in W3C headers", () => {
  it("ADD-05 comes back as it was written", () => {
    const headers = { traceparent: `00-${traceId}-${spanId}-01`, tracestate: "vendor=one,other=two" };
    const read = contextFrom(headers);
    expect(read).toMatchObject({ traceId, spanId, traceFlags: 1, isRemote: true });
    expect(headersOf(read)).toEqual(headers);
    expect(headersOf(contextFrom({ TraceParent: `00-${traceId}-${spanId}-00` }))).toEqual({
      traceparent: `00-${traceId}-${spanId}-00`,
    });
  });

  it.each([
    ["nothing", undefined],
    ["null", null],
    ["no such header", { colour: "red" }],
    ["an empty text", { traceparent: "" }],
    ["the forbidden version", { traceparent: `ff-${traceId}-${spanId}-01` }],
    ["more fields than version 00 has", { traceparent: `00-${traceId}-${spanId}-01-more` }],
    ["a trace id of zeros", { traceparent: `00-${"0".repeat(32)}-${spanId}-01` }],
    ["a span id of zeros", { traceparent: `00-${traceId}-${"0".repeat(16)}-01` }],
    ["capitals", { traceparent: `00-${traceId.toUpperCase()}-${spanId}-01` }],
    ["a payload", { traceparent: "x".repeat(100_000) }],
  ])("ADD-05 %s is no context", (_, headers) => {
    expect(contextFrom(headers)).toBeUndefined();
    expect(headersOf(undefined)).toEqual({});
  });

  it("ADD-05 a later version may have more fields", () => {
    expect(contextFrom({ traceparent: `01-${traceId}-${spanId}-01-more` })).toMatchObject({ traceId });
  });
});
