import { describe, expect, it } from "vitest";
import { postgresDialect } from "../../src/sql/postgres/index.js";

describe("what an error of PostgreSQL means for trying again", () => {
  it.each([
    ["a deadlock", { code: "40P01" }, "rolledBack"],
    ["a pool that had no connection", new Error("timeout exceeded when trying to connect"), "rolledBack"],
    ["a lost connection", { code: "08006" }, "unknown"],
    ["a violated constraint", { code: "23505" }, "permanent"],
    // fetch throws it, when a password comes from a service that does not answer; its code is a number
    ["a time-out of the caller's own", new DOMException("timed out", "TimeoutError"), "permanent"],
    ["nothing at all", null, "permanent"],
  ])("OBX-082 IBX-104 %s", (_, error, fault) => {
    expect(postgresDialect.classify(error)).toBe(fault);
  });
});
