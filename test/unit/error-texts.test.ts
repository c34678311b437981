import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { loggedError } from "../../src/base/logger.js";
import { withoutPayload } from "../../src/base/redaction.js";
import { errorGroupOf, normaliseError } from "../../src/queue/message.js";
import { fromStoredText, toStoredError, toStoredText } from "../../src/sql/message-content.js";

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

  it("ADD-02 is null without an error, and a long error is cut", () => {
    expect(errorGroupOf(null)).toBeNull();
    expect(errorGroupOf("")).toBeNull();
    expect(normaliseError(`x ${"'".repeat(1_000_000)}`).length).toBeLessThanOrEqual(4_000);
  });
});

describe("a payload quoted in an error", () => {
  const payload = '{"card":"4111-1111-1111-1111","note":"secret words"}';

  it.each([
    ["nothing of it", "the receiver answered 503", "the receiver answered 503"],
    ["a part of it", `cannot read "4111-1111-1111" here`, `cannot read [payload] here`],
    ["two parts", "4111-1111 is no secret words", "[payload] is no [payload]"],
    ["eight characters", "no 111-1111!", "no [payload]!"],
    ["seven characters", "no 11-1111!", "no 11-1111!"],
    ["short common words", "card not found", "card not found"],
    ["all of it", payload, "[payload]"],
    ["an empty text", "", ""],
    ["a different spelling", "no SECRET WORDS", "no SECRET WORDS"],
  ])("IBX-127 OBX-106 is taken out: %s", (_what, text, expected) => {
    expect(withoutPayload(text, payload)).toBe(expected);
  });

  it("IBX-127 OBX-106 is taken out of what JSON.parse throws", () => {
    const secret = "secret=4111-1111-1111-1111 and more";
    let said = "";
    try {
      JSON.parse(secret);
    } catch (error) {
      said = String(error);
    }
    expect(said).toContain("secret=4"); // or there is nothing to take out
    expect(withoutPayload(said, secret)).not.toContain("secret=4");
  });

  it("IBX-127 OBX-106 is found behind 300,000 characters, and where the text is cut", () => {
    const text = `${"-".repeat(3_990)}secret words`;
    const clean = withoutPayload(text, `${"x".repeat(300_000)}${payload}`);
    expect(clean).toBe(`${"-".repeat(3_990)}[payload]`);
  });

  it("IBX-127 OBX-106 a text is cut to 4,000 characters, and dropped when the payload is too long to search", () => {
    expect(withoutPayload("-".repeat(5_000), "{}")).toBe("-".repeat(4_000));
    expect(withoutPayload("secret words", "secret words".repeat(1_000_000))).toMatch(/^\[not kept: [^s]/);
  });
});

const secret = "hunter2";

/** Each quotes the secret, as errors quote payloads and parameters. */
const thrown: Readonly<Record<string, () => unknown>> = {
  "an error": () => new TypeError(`cannot read ${secret}`),
  "a message of many lines, one of which looks like a frame": () =>
    new Error(`first\n    at ${secret} (file:///app.js:1:1)\n${secret}`),
  "an error whose message was changed after it was made": () =>
    Object.assign(new Error(`was ${secret}\n    at ${secret}.js:1:1`), { message: "other" }),
  "a name and a code that are texts": () =>
    Object.assign(new Error("x"), { name: `for ${secret} only`, code: `no ${secret}!` }),
  "a text": () => secret,
  "an object": () => ({ message: secret, stack: `Error: ${secret}\n    at here (file.js:1:1)` }),
  nothing: () => undefined,
  "an error with a cause": () => new Error("outer", { cause: new Error(secret) }),
  "several errors": () => new AggregateError([new Error(secret)], secret),
  "an error whose properties throw": () =>
    Object.defineProperty(new Error(secret), "stack", {
      get: () => {
        throw new Error(secret);
      },
    }),
  "a message that is its own name": () => new Error("Error"),
};

describe("an error in a log line", () => {
  it.each(Object.entries(thrown))("IBX-127 OBX-106 never its message: %s", (_, make) => {
    const logged = loggedError(make());
    expect(JSON.stringify(logged)).not.toContain(secret);
    expect(logged.error).toMatch(/^[\w.$:, -]+$/);
  });

  it("IBX-110 its name, its code and the frames of its stack, ten at most", () => {
    const deep = (levels: number): Error =>
      levels === 0 ? Object.assign(new RangeError(secret), { code: "E_TOO_FAR" }) : deep(levels - 1);
    const { error, stack } = loggedError(deep(30));
    expect(error).toBe("RangeError E_TOO_FAR");
    expect(stack).toMatch(/^at deep .*error-texts\.test\.ts:\d+:\d+/);
    expect(stack!.split(", at ").length).toBeLessThanOrEqual(10);
    expect(loggedError(Object.assign(new Error(secret), { number: 1205 })).error).toBe("Error 1205");
  });
});

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
