import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type JsonText, scanMembers, valueProblem } from "../../../src/messaging/payload-json.js";

const any = { isKnown: () => true, maxDepth: 100, mostMembers: 1_000_000 } as const;

/** A text that counts the characters that are read. */
function counted(text: string): JsonText & { readonly reads: number } {
  let reads = 0;
  return {
    length: text.length,
    charCodeAt(at) {
      reads++;
      return text.charCodeAt(at);
    },
    slice(from, to) {
      const part = text.slice(from, to);
      reads += part.length;
      return part;
    },
    get reads() {
      return reads;
    },
  };
}

/** Texts that make careless scanners start again or look back. */
const hostile: Readonly<Record<string, (size: number) => string>> = {
  spaces: (size) => " ".repeat(size),
  "spaces in an object": (size) => `{${" \n".repeat(size / 2)}`,
  "opening braces": (size) => "{".repeat(size),
  "objects in objects": (size) => '{"a":'.repeat(size / 5),
  brackets: (size) => `{"a":${"[".repeat(size)}`,
  "brackets within the depth": (size) => `{"a":[${"[],".repeat(size / 3)}`,
  backslashes: (size) => `{"a":"${"\\".repeat(size)}"}`,
  quotes: (size) => `{"a":[${'"'.repeat(size)}`,
  "escaped quotes": (size) => `{"a":"${'\\"'.repeat(size / 2)}`,
  surrogates: (size) => `{"a":"${"\\ud83d\\ude00".repeat(size / 12)}`,
  "a surrogate at the end": (size) => `{"a":"${"\\ud83d\\ude00".repeat(size / 12)}\\ud83d`,
  "a long number": (size) => `{"a":${"9".repeat(size)}`,
  "a long name": (size) => `{"${"n".repeat(size)}":1}`,
  "an escaped name": (size) => `{"${"\\u0061".repeat(size / 6)}":1`,
  "many members": (size) => `{${Array.from({ length: size / 12 }, (_, n) => `"m${n}":{}`).join(",")}`,
  commas: (size) => `{"a":1${",".repeat(size)}`,
  "spaces between tokens": (size) => `{${' "a" : '.repeat(size / 7)}`,
};

describe("scanning JSON", () => {
  it("MSG-06 finds the same members as JSON.parse, each with the text of its value", () => {
    const space = fc.constantFrom("", " ", "\n\t", "\r ");
    const value = fc.jsonValue({ stringUnit: "binary", maxDepth: 3 });
    const object = fc.dictionary(fc.string({ unit: "binary" }), fc.tuple(value, space, space), {
      maxKeys: 4,
    });
    fc.assert(
      fc.property(object, space, fc.constantFrom(undefined, 2), (given, around, indent) => {
        const entries = Object.entries(given).map(([name, [one, before, after]]) => ({
          name,
          before,
          after,
          text: JSON.stringify(one, undefined, indent),
        }));
        const inner = entries.map(
          ({ name, before, after, text }) =>
            `${before}${JSON.stringify(name)}${after}:${before}${text}${after}`,
        );
        const found = scanMembers(
          `${around}{${inner.join(",")}${inner.length === 0 ? around : ""}}${around}`,
          any,
        );
        expect(found).toEqual(new Map(entries.map(({ name, text }) => [name, text])));
      }),
      { numRuns: 300, seed: 15 },
    );
  });

  it("MSG-06 never finds members in a text that JSON.parse refuses, once their values are parsed", () => {
    const piece = fc.constantFrom(
      ...'{}[]",:\\ \n1-tu0e.',
      '"a"',
      '"b"',
      "true",
      "null",
      "\\u0061",
      "{}",
      "\ud800",
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const text = `{"a":${pieces.join("")}}`;
        const found = scanMembers(text, any);
        if (typeof found === "string") return true;
        try {
          for (const value of found.values()) JSON.parse(value);
        } catch {
          return true;
        }
        return isDeepEqual(Object.fromEntries(found), JSON.parse(text));
      }),
      { numRuns: 10_000, seed: 15 },
    );
  });

  it.each(Object.entries(hostile))("MSG-06 reads each character a few times at most: %s", (_, make) => {
    for (const size of [1_200, 120_000]) {
      const text = counted(make(size));
      const found = scanMembers(text, any);
      expect(typeof found === "string" || found.size === 1).toBe(true);
      expect(text.reads).toBeLessThanOrEqual(6 * text.length + 100);
    }
  });

  it("MSG-06 stops at the depth that is allowed, however long the text", () => {
    const text = counted(`{"a":${"[".repeat(1_000_000)}`);
    expect(scanMembers(text, any)).toBe("nested too deep");
    expect(text.reads).toBeLessThan(1_000);
  });

  it("MSG-06 stops at the number of members that is allowed, however long the text", () => {
    const text = counted(`{${Array.from({ length: 100_000 }, (_, index) => `"m${index}":1`).join(",")}}`);
    expect(scanMembers(text, { ...any, mostMembers: 67 })).toBe("too many members");
    expect(text.reads).toBeLessThan(3_000);
  });

  it("MSG-06 MSG-22 accepts pairs of escaped surrogates and refuses lone ones", () => {
    const problem = (text: string) => valueProblem(`["${text}"]`, 100);
    for (const right of ["\\ud83d\\ude00", "\\uD83D\\uDE00x", "\\\\ud83d", "\\u0000", "\\\\\\\\udc00", "😀"])
      expect(problem(right), right).toBeUndefined();
    for (const wrong of [
      "\\ud83d",
      "\\ude00",
      "\\ud83d\\ud83d",
      "\\ud83dx\\ude00",
      "\\\\\\ud83d",
      "\\ud83d\\\\ude00",
      "\ud83d",
    ])
      expect(problem(wrong), wrong).toBe("lone surrogate");
  });
});

const isDeepEqual = (texts: Readonly<Record<string, string>>, parsed: unknown): boolean =>
  JSON.stringify(
    Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, JSON.parse(text)])),
  ) === JSON.stringify(parsed);
