import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { JsonText } from "../../../src/webhooks/schemes/delivery.js";
import { compilePlan, type JsonPlan, maxDepth, scanJson } from "../../../src/webhooks/schemes/json-scan.js";
import { reception, signed } from "./support.js";

const secrets = "a secret of many bytes";

describe("bodies of a proven sender", () => {
  const send = async (body: string) => {
    const { route, logs, messages } = await reception({ sources: { intercom: { secrets } } });
    const { intercom } = await import("../../../src/webhooks/presets/intercom.js");
    const { status } = await route(signed(intercom, { secrets, body }, "intercom"));
    return { status, reason: logs.at(-1)?.fields.reason, stored: (await messages()).length };
  };
  const nested = (levels: number) => `${'{"a":['.repeat(levels / 2)}${"]}".repeat(levels / 2)}`;
  const nestedLists = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;

  it.each([nested, nestedLists])("FUN-01 are stored up to 500 levels, and refused beyond", async (make) => {
    expect(await send(make(maxDepth))).toMatchObject({ status: 200, stored: 1 });
    for (const levels of [maxDepth + 2, 10_000, 1_000_000])
      expect(await send(make(levels))).toEqual({
        status: 400,
        reason: "the body is not JSON of at most 500 levels",
        stored: 0,
      });
  });
});

/** How many bytes a scan reads, each as often as it is read. */
function readsOf(text: string, plan: JsonPlan): number {
  let reads = 0;
  const bytes = new Proxy(Buffer.from(text), {
    get(target, name) {
      if (typeof name === "string" && /^\d+$/.test(name)) reads++;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  expect(scanJson(bytes, compilePlan(plan))).toBeDefined();
  return reads;
}

describe("a scan of JSON", () => {
  const plan: JsonPlan = {
    paths: ["id", "data.object.id", "a.0.b"],
    list: ["data", "*", "events"],
    fields: ["attempt", "data.attempt", "data.*.attempt", "*.*.at"],
    maxItems: 10,
  };
  const times = (text: string, count: number) => Array.from({ length: count }, () => text).join();
  const shapes: Readonly<Record<string, (size: number) => string>> = {
    "nested lists": (size) => `[${times(`${"[".repeat(400)}${"]".repeat(400)}`, size / 800)}]`,
    "lists of lists with the field": (size) =>
      `[${times(`${"[".repeat(50)}{"attempt":1}${"]".repeat(50)}`, size / 115)}]`,
    "empty lists": (size) => `[${times("[]", size / 3)}]`,
    "the same field": (size) => `{${times('"attempt":1', size / 12)}}`,
    "the same wanted key": (size) => `{${times('"data":{"object":{"id":1}}', size / 27)}}`,
    "escaped keys": (size) => `{${times('"\\u0069d":1', size / 11)}}`,
    events: (size) => `{"data":[${times('{"events":[{"at":1},2]}', size / 25)}]}`,
    "one text": (size) => `"${"x".repeat(size)}"`,
    blanks: (size) => `[${" ".repeat(size)}]`,
  };

  it.each(Object.entries(shapes))("FUN-01 reads each byte a bounded number of times: %s", (_what, make) => {
    for (const size of [8_000, 32_000]) {
      const text = make(size);
      expect(readsOf(text, plan) / text.length).toBeLessThan(12);
    }
  });

  it("FUN-01 takes for JSON what JSON.parse does, and finds what it finds", () => {
    const isJson = (text: string): boolean => {
      try {
        JSON.parse(text);
        return true;
      } catch {
        return false;
      }
    };
    const mutated = fc
      .tuple(fc.json({ maxDepth: 4 }), fc.nat(), fc.constantFrom(...'[]{}",:\\u0a1-+.eE \ntfn\u0001é', ""))
      .map(([text, at, sign]) => {
        const index = at % (text.length + 1);
        return text.slice(0, index) + sign + text.slice(index + (at % 2));
      });
    fc.assert(
      fc.property(fc.oneof(fc.json(), mutated, fc.string()), (text) => {
        const wellFormed = Buffer.from(text).toString();
        const given = wellFormed.replace(/^\uFEFF/, "");
        expect(JsonText.read(Buffer.from(wellFormed)) !== undefined, text).toBe(isJson(given));
      }),
      { numRuns: 5_000 },
    );
    const key = fc.constantFrom("a", "b", "0", "1", "é", "a b", "__proto__");
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: "small" },
        fc.oneof(fc.string(), fc.integer(), fc.double(), fc.boolean(), fc.constant(null)),
        fc.array(tie("value"), { maxLength: 3 }),
        fc.array(fc.tuple(key, tie("value")), { maxLength: 4 }).map((members) => ({ members })),
      ),
    }));
    fc.assert(
      fc.property(value, fc.array(key, { minLength: 1, maxLength: 3 }), (made, steps) => {
        const text = written(made);
        const path = steps.join(".");
        const expected = textAt(JSON.parse(text), steps);
        const planned = compilePlan({ paths: [path, "a", "a.b", "b.0.a"] });
        expect(JsonText.read(Buffer.from(text), planned)!.value(path), `${path} of ${text}`).toBe(expected);
        expect(JsonText.read(Buffer.from(text))!.value(path)).toBe(expected);
      }),
      { numRuns: 5_000 },
    );
  });

  it("FUN-01 the items at a path are those that the parsed document has there", () => {
    const itemsOf = (text: string, ...steps: string[]) =>
      JsonText.read(Buffer.from(text))!
        .items(steps, 3)
        ?.map((item) => item.text());
    expect(itemsOf('{"e":[1, {"a":[]} ,"x"]}', "e")).toEqual(["1", '{"a":[]}', '"x"']);
    expect(itemsOf('{"e":[1],"e":[2,3]}', "e")).toEqual(["2", "3"]);
    expect(itemsOf('{"\\u0065":[2]}', "e")).toEqual(["2"]);
    expect(itemsOf('{"e":[]}', "e")).toEqual([]);
    expect(itemsOf('{"e":{"b":1}}', "e")).toEqual(['{"b":1}']);
    expect(itemsOf('{"d":{"x":1}}', "d", "e")).toEqual(['{"x":1}']);
    expect(itemsOf('{"d":{"e":[1]},"d":5}', "d", "e")).toEqual(["5"]);
    expect(itemsOf(' {"x":1}', "e")).toBeUndefined();
    expect(itemsOf("[[1],[2]]")).toEqual(["[1]", "[2]"]);
    expect(itemsOf('[{"c":[1,2]},{"x":0},{"c":[]},3]', "*", "c")).toEqual(["1", "2", '{"x":0}', "3"]);
    expect(itemsOf("[1,2,3,4,5,6]")).toEqual(["1", "2", "3", "4"]); // one more than three
    expect(itemsOf("5")).toBeUndefined();
  });

  it("FUN-05 fields that are left out are cut out of the bytes, however they are nested", () => {
    const stable = (text: string, ...fields: string[]) =>
      Buffer.from(JsonText.read(Buffer.from(text), compilePlan({ paths: [], fields }))!.stable()).toString();
    expect(stable('{"a":1,"b":{"a":2}}', "a")).toBe('{,"b":{"a":2}}');
    expect(stable('[{"a":1},[[{"a":[1]}]]]', "a")).toBe("[{},[[{}]]]");
    expect(stable('{"e":[{"a":1,"b":2},{"a":3}]}', "e.*.a")).toBe('{"e":[{,"b":2},{}]}');
    expect(stable('{"e":[{"a":1,"b":2},{"a":3}]}', "e.a")).toBe('{"e":[{,"b":2},{}]}');
    expect(stable('{"x":{"a":1},"y":{"a":2}}', "*.a")).toBe('{"x":{},"y":{}}');
    expect(stable('{"a":{"b":1},"c":1}', "a.b", "a", "c")).toBe("{,}");
    expect(stable('{"a":9007199254740993}', "b")).toBe('{"a":9007199254740993}');
  });
});

type Made = { readonly members: readonly (readonly [string, unknown])[] };

/** As JSON, with a key that may stand there twice. */
function written(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(written).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const { members } = value as Made;
  return `{${members.map(([name, one]) => `${JSON.stringify(name)} :${written(one)}`).join(",")}}`;
}

function textAt(json: unknown, steps: readonly string[]): string | undefined {
  let found = json;
  for (const step of steps) {
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, step)) return undefined;
    found = (found as Readonly<Record<string, unknown>>)[step];
  }
  if (typeof found === "string") return found;
  return Number.isSafeInteger(found) ? String(found) : undefined;
}
