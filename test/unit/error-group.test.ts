import { describe, expect, it } from "vitest";
import { errorGroupOf, normaliseError } from "../../src/queue/message.js";

describe("the group of an error", () => {
  it.each([
    ["order 17 not found", "order 4711 not found"],
    ["timeout after 30.5 s", "timeout after 7 s"],
    ["user 0c5b3bfe-8a0b-4d43-9c3e-0123456789ab", "user 4f5b3bfe-8a0b-4d43-9c3e-0123456789AB"],
    ["commit deadbeef01 failed", "commit 0123456789abcdef failed"],
    ["at 0x7ffe", "at 0xA0"],
    ["unexpected token \"a\" in 'b'", "unexpected token \"other\" in 'c d'"],
    ["line one\n  line two", "line one line two"],
  ])("ADD-02 is the same for %j and %j", (one, other) => {
    expect(errorGroupOf(one)).toBe(errorGroupOf(other));
    expect(errorGroupOf(one)).toMatch(/^[0-9a-f]{16}$/);
  });

  it.each([
    ["ECONNREFUSED", "ECONNRESET"],
    ["the user can't pay", "the user won't pay"],
    ["a decade of work", "a facade of work"],
  ])("ADD-02 differs for %j and %j", (one, other) => {
    expect(errorGroupOf(one)).not.toBe(errorGroupOf(other));
  });

  it("ADD-02 is null without an error, and a long error is cut in time that grows with its length only", () => {
    expect(errorGroupOf(null)).toBeNull();
    expect(errorGroupOf("")).toBeNull();
    expect(normaliseError(`x ${"'".repeat(1_000_000)}`).length).toBeLessThanOrEqual(4_000);
  });
});
