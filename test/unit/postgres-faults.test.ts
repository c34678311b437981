import { describe, expect, it } from "vitest";
import { classify, isConnectionError, isSchemaMissing } from "../../src/sql/postgres/faults.js";

describe("whether an error of PostgreSQL may be retried", () => {
  it.each([
    ["a deadlock", { code: "40P01" }, "rolledBack"],
    ["a pool that had no connection", new Error("timeout exceeded when trying to connect"), "rolledBack"],
    ["a lost connection", { code: "08006" }, "unknown"],
    ["a violated constraint", { code: "23505" }, "permanent"],
    // `fetch` throws it where a password comes from a service that does not respond; its code is a number
    ["a time-out of the caller's own", new DOMException("timed out", "TimeoutError"), "permanent"],
    ["null", null, "permanent"],
  ])("OBX-082 IBX-104 %s", (_, error, fault) => {
    expect(classify(error)).toBe(fault);
  });

  it.each([
    ["a missing table", { code: "42P01" }, true],
    ["a missing function", { code: "42883" }, true],
    ["a violated constraint", { code: "23505" }, false],
    ["null", null, false],
  ])("OBX-092 %s: is the schema missing?", (_, error, isMissing) => {
    expect(isSchemaMissing(error)).toBe(isMissing);
  });

  it.each([
    ["a lost connection", { code: "08006" }, true],
    ["a shutdown", { code: "57P01" }, true],
    ["a closed socket", { code: "ECONNRESET" }, true],
    [
      "a client that has ended",
      new Error("Client has encountered a connection error and is not queryable"),
      true,
    ],
    ["a deadlock", { code: "40P01" }, false],
    ["a violated constraint", { code: "23505" }, false],
  ])("FUN-12 %s: must the pool drop the connection?", (_, error, isLost) => {
    expect(isConnectionError(error)).toBe(isLost);
  });
});
