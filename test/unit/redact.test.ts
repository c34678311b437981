import { describe, expect, it } from "vitest";
import { withoutPayload } from "../../src/base/redaction.js";

describe("what an error quotes of the payload", () => {
  const payload = '{"card":"4111-1111-1111-1111","note":"secret words"}';

  it.each([
    ["nothing of it", "the receiver answered 503", "the receiver answered 503"],
    ["a part of it", `cannot read "4111-1111-1111" here`, `cannot read [payload] here`],
    ["short common words", "card not found", "card not found"],
    ["all of it", payload, "[payload]"],
    ["an empty text", "", ""],
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
    expect(withoutPayload(said, secret)).not.toContain("4111");
  });
});
