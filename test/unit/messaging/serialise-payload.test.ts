import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import { serialisePayload, valueProblem } from "../../../src/messaging/payload-json.js";

const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)]);

describe("serialising a payload", () => {
  it("MSG-06 MSG-22 writes what JSON.stringify writes, for every value that JSON can carry", () => {
    const member = fc.oneof(
      fc.constantFrom("__proto__", "toString", "", "a.b"),
      fc.string({ unit: "binary" }),
    );
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom(null, true, false, -0, undefined),
        fc.double({ noNaN: true, noDefaultInfinity: true }),
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
        const text = serialisePayload(one);
        return text === JSON.stringify(one) && valueProblem(text, 100) === undefined;
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
      expect(() => serialisePayload(payload), message).toThrow(refused);
    }
    expect(() => serialisePayload({ a: 1n }, "The response")).toThrow("The response.a is a bigint.");
  });

  it("MSG-22 allows depth up to the limit, and one object in several places", () => {
    expect(serialisePayload(deep(100))).toBe(`${"[".repeat(100)}1${"]".repeat(100)}`);
    const address = { city: "Zürich" };
    expect(serialisePayload({ from: address, to: address })).toBe(
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
    expect(serialisePayload(payload)).toBe(
      '{"at":"1970-01-01T00:00:00.000Z","own":{"key":"own","toJSON":"text"},"count":1}',
    );
    expect(reads).toBe(1);
  });
});
