import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import { canonicalJson } from "../../../src/messaging/canonical-json.js";

const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)]);

/** What a JSON parser returns, with the members of each object in the order of RFC 8785. */
const sorted = (value: unknown): unknown => {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(sorted);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([name, one]) => [name, sorted(one)]));
};

/** Names like array indices come first in every object of JavaScript, so they are left to the vectors and to Python. */
const isIndex = (name: string): boolean => /^\d+$/.test(name);

describe("canonical JSON", () => {
  it("MSG-06 writes the examples of RFC 8785", () => {
    // 3.2.2 and 3.2.4, but for 1E30, which is out of range here
    const example = String.raw`{
      "numbers": [333333333.33333329, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }`;
    expect(Buffer.from(canonicalJson(JSON.parse(example))).toString("hex")).toBe(
      Buffer.from(
        String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
      ).toString("hex"),
    );
    // 3.2.3: by UTF-16 code units, so the emoji is before the Hebrew presentation form
    const names = JSON.parse(String.raw`{
      "\u20ac": "Euro Sign",
      "\r": "Carriage Return",
      "\ufb33": "Hebrew Letter Dalet With Dagesh",
      "1": "One",
      "\ud83d\ude00": "Emoji: Grinning Face",
      "\u0080": "Control",
      "\u00f6": "Latin Small Letter O With Diaeresis"
    }`) as object;
    const order = [...canonicalJson(names).matchAll(/:"([^"]+)"/g)].map(([, value]) => value);
    expect(order).toEqual([
      "Carriage Return",
      "One",
      "Control",
      "Latin Small Letter O With Diaeresis",
      "Euro Sign",
      "Emoji: Grinning Face",
      "Hebrew Letter Dalet With Dagesh",
    ]);
  });

  // appendix B, as the bits of a double
  it.each([
    ["0000000000000000", "0"],
    ["8000000000000000", "0"],
    ["0000000000000001", "5e-324"],
    ["8000000000000001", "-5e-324"],
    ["3eb0c6f7a0b5ed8c", "9.999999999999997e-7"],
    ["3eb0c6f7a0b5ed8d", "0.000001"],
    ["41b3de4355555553", "333333333.3333332"],
    ["41b3de4355555554", "333333333.33333325"],
    ["41b3de4355555555", "333333333.3333333"],
    ["41b3de4355555556", "333333333.3333334"],
    ["41b3de4355555557", "333333333.33333343"],
    ["becbf647612f3696", "-0.0000033333333333333333"],
  ])("MSG-06 writes the number %s of RFC 8785 as %s", (bits, text) => {
    expect(canonicalJson(Buffer.from(bits, "hex").readDoubleBE())).toBe(text);
  });

  // also from appendix B
  it.each([
    "7fefffffffffffff",
    "ffefffffffffffff",
    "4340000000000000",
    "c340000000000000",
    "44b52d02c7e14af5",
  ])("MSG-22 refuses the number %s, which has more digits than every JSON parser keeps", (bits) => {
    expect(() => canonicalJson({ n: Buffer.from(bits, "hex").readDoubleBE() })).toThrow(
      "payload.n is a number beyond ±9007199254740991. Send it as a string.",
    );
  });

  it("MSG-06 MSG-22 writes what JSON.stringify writes of the same value with its names in order", () => {
    const member = fc
      .oneof(fc.constantFrom("__proto__", "toString", "", "a.b"), fc.string({ unit: "binary" }))
      .filter((name) => !isIndex(name));
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom(null, true, false, -0, undefined),
        fc.double({ noNaN: true, min: -(2 ** 53 - 1), max: 2 ** 53 - 1 }),
        fc.string({ unit: "binary" }),
        fc.date({ noInvalidDate: true }),
        fc.array(
          tie("value").filter((one) => one !== undefined),
          { maxLength: 4 },
        ),
        fc.dictionary(member, tie("value"), { maxKeys: 4 }),
      ),
    }));
    fc.assert(
      fc.property(value, (one) => {
        fc.pre(one !== undefined);
        expect(canonicalJson(one)).toBe(JSON.stringify(sorted(JSON.parse(JSON.stringify(one)))));
      }),
      { numRuns: 500, seed: 15 },
    );
  });

  it("MSG-22 refuses what JSON cannot carry, by its path and without its value", () => {
    const hidden = "4242-4242";
    const circular: Record<string, unknown> = { hidden };
    circular.items = [1, { back: circular }];
    class Money {
      constructor(readonly toJSON: () => unknown) {}
    }
    const throwing = () => {
      throw new Error(hidden);
    };
    for (const [payload, message] of [
      [undefined, "payload is undefined."],
      [() => hidden, "payload is a function."],
      [Symbol(hidden), "payload is a symbol."],
      [{ hidden, total: 42424242n }, "payload.total is a bigint."],
      [circular, "payload.items[1].back is a circular reference."],
      [{ a: { "b c": [1, Number.NaN] } }, 'payload.a["b c"][1] is NaN or infinite.'],
      [[Number.POSITIVE_INFINITY], "payload[0] is NaN or infinite."],
      [{ list: [1, undefined] }, "payload.list[1] is undefined."],
      [new Array(2), "payload[0] is undefined."],
      [{ run: () => hidden }, "payload.run is a function."],
      [{ text: `${hidden}\ud800` }, "payload.text has a lone surrogate."],
      [{ "\udc00": 1 }, 'payload["\\udc00"] has a lone surrogate.'],
      [{ at: new Date(Number.NaN) }, "payload.at is an invalid Date."],
      [{ map: new Map([[hidden, 1]]) }, "payload.map is neither a plain object nor an array."],
      [[new Uint8Array(3)], "payload[0] is neither a plain object nor an array."],
      [new Error(hidden), "payload is neither a plain object nor an array."],
      [{ price: new Money(() => undefined) }, "payload.price has a toJSON that returns undefined."],
      [{ price: new Money(() => 1n) }, "payload.price is a bigint."],
      [{ price: new Money(() => circular) }, "payload.price.items[1].back is a circular reference."],
      [
        { price: new Money(throwing) },
        "payload.price cannot be read: its getter or its toJSON threw an error.",
      ],
      [
        {
          get price() {
            return throwing();
          },
        },
        "payload.price cannot be read: its getter or its toJSON threw an error.",
      ],
      [deep(101), `payload${"[0]".repeat(66)}[0… is nested deeper than 100 levels.`],
    ] as const) {
      const refused = new InvalidArgumentError(`${message} Send plain JSON.`);
      expect(() => canonicalJson(payload), message).toThrow(refused);
    }
    expect(() => canonicalJson({ a: 1n }, "The response")).toThrow("The response.a is a bigint.");
  });

  it("MSG-22 allows depth up to the limit, and one object in several places", () => {
    expect(canonicalJson(deep(100))).toBe(`${"[".repeat(100)}1${"]".repeat(100)}`);
    const address = { city: "Zürich" };
    expect(canonicalJson({ from: address, to: address })).toBe(
      '{"from":{"city":"Zürich"},"to":{"city":"Zürich"}}',
    );
  });

  it("MSG-06 applies toJSON once and with the key, leaves undefined members out, and reads a getter once", () => {
    let reads = 0;
    const payload = {
      at: new Date(0),
      own: { toJSON: (key: string) => ({ key, toJSON: "text" }) },
      left: undefined,
      get count() {
        reads++;
        return reads;
      },
    };
    expect(canonicalJson(payload)).toBe(
      '{"at":"1970-01-01T00:00:00.000Z","count":1,"own":{"key":"own","toJSON":"text"}}',
    );
    expect(reads).toBe(1);
  });
});
