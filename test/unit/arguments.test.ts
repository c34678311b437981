import { describe, expect, it } from "vitest";
import { ArgumentRangeError, InvalidArgumentError } from "../../src/errors.js";
import {
  optionalDate,
  optionalHash,
  optionalHeaders,
  optionalName,
  refuseUnknown,
  requireBatchSize,
  requireDuration,
  requireList,
  requireName,
  requirePayload,
} from "../../src/queue/arguments.js";
import { longestMs } from "../../src/queue/retry-policy.js";

describe("arguments", () => {
  it.each([null, undefined, "", 7, {}, [], "x".repeat(256), "a\0", "\uDC00", "x ", " "])(
    "IBX-015 IBX-020 OBX-004 OBX-007 refuses %o as a name",
    (value) => {
      expect(() => requireName(value, "topic")).toThrow(InvalidArgumentError);
      expect(() => requireName(value, "topic")).toThrow(TypeError);
      expect(() => requireName(value, "topic")).toThrow(/^topic/);
    },
  );

  it.each(["x", " x", "x".repeat(255), "😀", "Ünïcode", "a b", "\u0001", "'; drop table x; --"])(
    "IBX-015 IBX-020 OBX-004 OBX-007 takes %o as a name",
    (value) => {
      expect(() => requireName(value, "topic")).not.toThrow();
    },
  );

  it("IBX-127 OBX-106 never quotes the value in the error", () => {
    expect(() => requireName(`secret${"x".repeat(300)}`, "topic")).not.toThrow(/secret/);
    expect(() => requirePayload("secret\uD800")).not.toThrow(/secret/);
  });

  it("OBX-008 OBX-009 takes an empty name as none and refuses one that is too long", () => {
    for (const none of ["", null, undefined]) expect(optionalName(none, "correlationId")).toBeNull();
    expect(optionalName("x", "correlationId")).toBe("x");
    expect(() => optionalName("x".repeat(256), "correlationId")).toThrow(InvalidArgumentError);
    expect(() => optionalName(7, "correlationId")).toThrow(InvalidArgumentError);
  });

  it("IBX-018 IBX-019 OBX-005 OBX-006 takes any well-formed string as a payload, the empty one too, and nothing else", () => {
    for (const payload of ["", "\0", "😀", "x".repeat(1_000_000)]) {
      expect(() => requirePayload(payload)).not.toThrow();
    }
    for (const payload of [null, undefined, 7, {}, Buffer.from("x"), "\uD800"]) {
      expect(() => requirePayload(payload)).toThrow(InvalidArgumentError);
    }
  });

  it("IBX-024 OBX-012 takes dates from 1970 to 9998 and refuses other values", () => {
    const [first, last] = [new Date(0), new Date(Date.UTC(9998, 0, 1))];
    expect(optionalDate(first, "dueAt")).toBe(first);
    expect(optionalDate(last, "dueAt")).toBe(last);
    for (const none of [null, undefined]) expect(optionalDate(none, "dueAt")).toBeNull();
    const wrong = [new Date(Number.NaN), new Date(-1), new Date(last.getTime() + 1), "2030-01-01", 0];
    for (const value of wrong) expect(() => optionalDate(value, "dueAt")).toThrow(InvalidArgumentError);
  });

  it("takes headers as an object of strings", () => {
    const headers = { a: "b", empty: "" };
    expect(optionalHeaders(headers)).toEqual(headers);
    for (const none of [null, undefined]) expect(optionalHeaders(none)).toBeNull();
    for (const wrong of ["x", 7, ["x"], { a: 7 }, { a: null }]) {
      expect(() => optionalHeaders(wrong)).toThrow(InvalidArgumentError);
    }
  });

  it("IBX-129 takes a hash as bytes", () => {
    const hash = new Uint8Array(32);
    expect(optionalHash(hash)).toBe(hash);
    expect(optionalHash(Buffer.alloc(32))).toHaveLength(32);
    for (const none of [null, undefined]) expect(optionalHash(none)).toBeNull();
    for (const wrong of ["abc", [1, 2], 7]) expect(() => optionalHash(wrong)).toThrow(InvalidArgumentError);
  });

  it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, longestMs + 1, "30", null, undefined])(
    "IBX-040 OBX-027 refuses %o as a duration",
    (value) => {
      expect(() => requireDuration(value, "leaseMs")).toThrow(ArgumentRangeError);
      expect(() => requireDuration(value, "leaseMs")).toThrow(RangeError);
      expect(() => requireDuration(value, "leaseMs")).toThrow(/^leaseMs/);
    },
  );

  it("IBX-040 IBX-119 OBX-027 OBX-097 takes durations from a fraction of a millisecond to a year", () => {
    for (const value of [0.5, 1, 10_000, 300_000, longestMs]) {
      expect(() => requireDuration(value, "leaseMs")).not.toThrow();
    }
  });

  it.each([0, -1, 1.5, Number.NaN, 1_001, "10", null])(
    "IBX-041 OBX-028 refuses %o as a batch size",
    (value) => {
      expect(() => requireBatchSize(value)).toThrow(ArgumentRangeError);
      expect(() => requireBatchSize(value, "limit")).toThrow(/^limit/);
    },
  );

  it("IBX-041 IBX-120 OBX-028 OBX-098 takes batch sizes from 1 to 1,000", () => {
    for (const value of [1, 50, 100, 1_000]) expect(() => requireBatchSize(value)).not.toThrow();
  });

  it("IBX-048 OBX-036 takes lists, empty ones too, and nothing else", () => {
    expect(() => requireList([], "messages")).not.toThrow();
    for (const wrong of [null, undefined, "x", {}, new Set()]) {
      expect(() => requireList(wrong as unknown as [], "messages")).toThrow(InvalidArgumentError);
    }
  });

  it("refuses unknown options, all of them at once, and says which are known", () => {
    expect(() => refuseUnknown({ schema: "x" }, ["schema", "table"], "outbox")).not.toThrow();
    const refuse = () => refuseUnknown({ schema: "x", tabel: 1, shcema: 2 }, ["schema", "table"], "outbox");
    expect(refuse).toThrow(InvalidArgumentError);
    expect(refuse).toThrow("outbox: unknown options tabel, shcema. Known: schema, table.");
    expect(() => refuseUnknown({ tabel: 1 }, ["table"], "outbox")).toThrow("unknown option tabel.");
    for (const wrong of ["app.db", null, undefined, 5, ["table"]]) {
      expect(() => refuseUnknown(wrong as never, ["table"], "outbox")).toThrow(
        "outbox: the options must be an object with table.",
      );
    }
  });
});
