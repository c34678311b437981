import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../src/errors.js";
import { newOwnerToken, ownerToken } from "../../src/queue/leases.js";

describe("owner token", () => {
  it("IBX-035 OBX-021 is a new GUID every time", () => {
    const tokens = Array.from({ length: 1_000 }, newOwnerToken);
    expect(new Set(tokens).size).toBe(1_000);
    for (const token of tokens) expect(ownerToken(token)).toBe(token);
  });

  it("IBX-035 OBX-021 takes a GUID in any case as the same owner", () => {
    expect(ownerToken("6F9619FF-8B86-D011-B42D-00C04FC964FF")).toBe("6f9619ff-8b86-d011-b42d-00c04fc964ff");
  });

  it.each([
    "00000000-0000-0000-0000-000000000000",
    "",
    "worker-1",
    "6f9619ff8b86d011b42d00c04fc964ff",
    "{6f9619ff-8b86-d011-b42d-00c04fc964ff}",
    " 6f9619ff-8b86-d011-b42d-00c04fc964ff",
    "6f9619ff-8b86-d011-b42d-00c04fc964ff\n",
    null,
    undefined,
    7,
    {},
  ])("IBX-130 refuses %o", (value) => {
    expect(() => ownerToken(value as string)).toThrow(InvalidArgumentError);
    expect(() => ownerToken(value as string)).toThrow(/newOwnerToken/);
  });
});
