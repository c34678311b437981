import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromStoredText, toStoredError, toStoredText } from "../../src/sql/message-content.js";

const mark = "\u0001base64:";

describe("stored text", () => {
  it("OBX-011 stores ordinary text as it is, to be read by hand", () => {
    for (const text of ["", "{}", "😀", "\u0001", "base64:AAAA", `x${mark}`, "\n"])
      expect(toStoredText(text)).toBe(text);
  });

  it("OBX-011 stores text with NUL without one, and text that looks like the mark under the mark", () => {
    for (const text of ["\0", "a\0b", `${mark}AAAA`, mark, `${mark}\0`]) {
      const storedText = toStoredText(text);
      expect(storedText.startsWith(mark)).toBe(true);
      expect(storedText.slice(mark.length)).toMatch(/^[A-Za-z0-9+/=]*$/);
      expect(fromStoredText(toStoredText(text))).toBe(text);
    }
  });

  it("OBX-011 gives back any well-formed text, and never stores NUL", () => {
    const unit = fc.oneof(fc.constantFrom("\0", "\u0001", mark), fc.string({ unit: "binary" }));
    const text = fc.array(unit, { maxLength: 8 }).map((parts) => parts.join("").toWellFormed());
    fc.assert(
      fc.property(text, (value) => {
        const storedText = toStoredText(value);
        return !storedText.includes("\0") && fromStoredText(storedText) === value;
      }),
      { numRuns: 1_000 },
    );
  });

  it("OBX-045 makes any error text storable and readable", () => {
    expect(toStoredError("410 Gone 😀")).toBe("410 Gone 😀");
    expect(toStoredError("a\0b")).toBe("a\uFFFDb");
    expect(toStoredError("\uD800x")).toBe("\uFFFDx");
    expect(toStoredError("x".repeat(100_000))).toHaveLength(4_000);
    expect(toStoredError("")).toBeNull();
    // cut in the middle of a pair
    expect(toStoredError(`${"x".repeat(3_999)}😀`)).toBe(`${"x".repeat(3_999)}\uFFFD`);
  });
});
