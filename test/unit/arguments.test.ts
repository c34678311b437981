import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../src/errors.js";
import {
  optionalDate,
  optionalHash,
  optionalHeaders,
  refuseUnknown,
  requireName,
  requirePayload,
} from "../../src/queue/arguments.js";
import { newOwnerToken, ownerToken } from "../../src/queue/leases.js";

describe("arguments", () => {
  it("IBX-127 OBX-106 never quotes the value in the error", () => {
    for (const refused of [
      () => requireName(`secret${"x".repeat(300)}`, "topic"),
      () => requirePayload("secret\uD800"),
    ]) {
      expect(refused).toThrow(InvalidArgumentError);
      expect(refused).not.toThrow(/secret/);
    }
  });

  it("IBX-024 OBX-012 takes dates from 1970 to 9998 and refuses other values", () => {
    const [first, last] = [new Date(0), new Date(Date.UTC(9998, 0, 1))];
    expect(optionalDate(first, "dueAt")).toBe(first);
    expect(optionalDate(last, "dueAt")).toBe(last);
    for (const none of [null, undefined]) expect(optionalDate(none, "dueAt")).toBeNull();
    const wrong = [new Date(Number.NaN), new Date(-1), new Date(last.getTime() + 1), "2030-01-01", 0];
    for (const value of wrong) expect(() => optionalDate(value, "dueAt")).toThrow(InvalidArgumentError);
  });

  it("takes headers as an object of strings", () => {
    const headers = { a: "b", empty: "" };
    expect(optionalHeaders(headers)).toEqual(headers);
    for (const none of [null, undefined]) expect(optionalHeaders(none)).toBeNull();
    for (const wrong of ["x", 7, ["x"], { a: 7 }, { a: null }]) {
      expect(() => optionalHeaders(wrong)).toThrow(InvalidArgumentError);
    }
  });

  it("IBX-129 takes a hash as bytes, or as text with its algorithm", () => {
    expect(optionalHash(Uint8Array.of(0, 171))).toBe("00ab");
    expect(optionalHash("SHA-256:00AB")).toBe("sha-256:00ab");
    for (const none of [null, undefined]) expect(optionalHash(none)).toBeNull();
    for (const wrong of ["abc", "00ab", "sha256:0", "a b:00", [1, 2], 7])
      expect(() => optionalHash(wrong)).toThrow(InvalidArgumentError);
  });

  it("refuses unknown options, all of them at once, and says which are known", () => {
    expect(() => refuseUnknown({ schema: "x" }, ["schema", "table"], "outbox")).not.toThrow();
    const refuse = () => refuseUnknown({ schema: "x", tabel: 1, shcema: 2 }, ["schema", "table"], "outbox");
    expect(refuse).toThrow(InvalidArgumentError);
    expect(refuse).toThrow("outbox: unknown options tabel, shcema. Known: schema, table.");
    expect(() => refuseUnknown({ tabel: 1 }, ["table"], "outbox")).toThrow("unknown option tabel.");
    for (const wrong of ["app.db", null, undefined, 5, ["table"]]) {
      expect(() => refuseUnknown(wrong as never, ["table"], "outbox")).toThrow(
        "outbox: the options must be an object with table.",
      );
    }
  });
});

describe("owner token", () => {
  it("IBX-035 OBX-021 is a new GUID each time", () => {
    const tokens = Array.from({ length: 1_000 }, newOwnerToken);
    expect(new Set(tokens).size).toBe(1_000);
    for (const token of tokens) expect(ownerToken(token)).toBe(token);
  });

  it("IBX-035 OBX-021 ignores the case of a GUID", () => {
    expect(ownerToken("6F9619FF-8B86-D011-B42D-00C04FC964FF")).toBe("6f9619ff-8b86-d011-b42d-00c04fc964ff");
  });

  it.each([
    "00000000-0000-0000-0000-000000000000",
    "6f9619ff8b86d011b42d00c04fc964ff",
    "{6f9619ff-8b86-d011-b42d-00c04fc964ff}",
    " 6f9619ff-8b86-d011-b42d-00c04fc964ff",
    "6f9619ff-8b86-d011-b42d-00c04fc964ff\n",
  ])("IBX-130 refuses %o", (value) => {
    expect(() => ownerToken(value)).toThrow(InvalidArgumentError);
    expect(() => ownerToken(value)).toThrow(/newOwnerToken/);
  });
});
