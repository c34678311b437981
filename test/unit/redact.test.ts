import { describe, expect, it } from "vitest";
import { withoutPayload } from "../../src/base/redaction.js";

describe("what an error quotes of the payload", () => {
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
    ["what is written differently", "no SECRET WORDS", "no SECRET WORDS"],
  ])("IBX-127 OBX-106 is taken out: %s", (_what, text, expected) => {
    expect(withoutPayload(text, payload)).toBe(expected);
  });

  it("IBX-127 OBX-106 what JSON.parse says of a payload does not show it", () => {
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

  it("IBX-127 OBX-106 a text is cut to 4,000 characters, and not kept beside a payload too long to search", () => {
    expect(withoutPayload("-".repeat(5_000), "{}")).toBe("-".repeat(4_000));
    expect(withoutPayload("secret words", "secret words".repeat(1_000_000))).toMatch(/^\[not kept: [^s]/);
  });
});
