import { describe, expect, it } from "vitest";
import { outgoingMessages } from "../../../src/dispatch/returned-messages.js";
import { attributesOf, InvalidArgumentError } from "../../../src/index.js";
import {
  compose,
  currentTransaction,
  inbox,
  outbox,
  publish,
  transaction,
} from "../../../src/middleware/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";

const db = openSqlite({ file: ":memory:" }); // never connected: no factory does I/O
const tx = transaction(db);
const deduplicate = inbox({ subscriber: "s" });
const send = outbox();
const handler = async () => {};

describe("compose", () => {
  it("MID-07 accepts every valid order, with other middleware anywhere", () => {
    for (const good of [[], [tx], [tx, deduplicate], [tx, send], [tx, deduplicate, send]])
      expect(compose(good, handler)).toBeTypeOf("function");
    expect(
      compose([async (_message, next) => next(), tx, async (_message, next) => next(), send], handler),
    ).toBeTypeOf("function");
  });

  it("MID-04 MID-07 refuses a wrong order when it is called, and the error says what to do", () => {
    const wrong: [Parameters<typeof compose>[0], RegExp][] = [
      [[deduplicate], /inbox needs a transaction: add transaction\(db\)/],
      [[send], /outbox needs a transaction: add transaction\(db\)/],
      [[deduplicate, tx], /move transaction\(db\) to the front/],
      [[tx, send, deduplicate], /outbox comes before inbox/],
      [[tx, tx], /transaction is there twice/],
      [[{} as never], /entry 1 of the list is not middleware/],
    ];
    for (const [middleware, problem] of wrong) {
      expect(() => compose(middleware, handler)).toThrow(InvalidArgumentError);
      expect(() => compose(middleware, handler)).toThrow(problem);
    }
    expect(() => compose([tx], undefined as never)).toThrow(/handler/);
    expect(() => compose(undefined as never, handler)).toThrow(/list/);
  });

  it("MID-04 a middleware that runs outside of a transaction throws, and the error says what to add", async () => {
    const next = async () => undefined;
    await expect(deduplicate.run({ messageId: "m" }, next)).rejects.toThrow(
      /Add transaction\(db\) before inbox/,
    );
    await expect(send.run({}, next)).rejects.toThrow(/Add transaction\(db\) before outbox/);
    expect(() => publish({ topic: "t", payload: "" })).toThrow(/outbox\(\)/);
    expect(currentTransaction()).toBeUndefined();
  });

  it("MID-01 options are checked when the middleware is made", () => {
    expect(() => inbox({ subscriber: "" })).toThrow(/subscriber/);
    expect(() => inbox({ subscriber: "s", messageId: "id" as never })).toThrow(/messageId/);
    expect(() => outbox({ topic: "" })).toThrow(/topic/);
    expect(() => transaction(undefined as never)).toThrow(/openPostgres/);
    expect(() => transaction(db, { begin: 1 as never })).toThrow(/begin/);
  });
});

describe("a handler's output", () => {
  it("MID-06 is nothing, a message or a list; data and attributes become JSON", () => {
    expect(outgoingMessages(undefined, undefined)).toEqual([]);
    expect(outgoingMessages(null, undefined)).toEqual([]);
    expect(outgoingMessages([], undefined)).toEqual([]);
    expect(outgoingMessages({ data: null }, "t")).toEqual([{ topic: "t", payload: "null" }]);
    expect(outgoingMessages({ topic: "t", payload: "p", headers: { a: "1" } }, "other")).toEqual([
      { topic: "t", payload: "p", headers: { a: "1" } },
    ]);
    expect(
      outgoingMessages(
        { topic: "t", data: [1], attributes: { n: 1, s: "x", o: { a: 1 }, u: undefined } },
        undefined,
      ),
    ).toEqual([
      {
        topic: "t",
        payload: "[1]",
        headers: { n: "1", s: "x", o: '{"a":1}', "oncebox-json-headers": '["n","o"]' },
      },
    ]);
  });

  it("MID-06 attributes keep their types, also beside headers of a message that is passed on", () => {
    const [first] = outgoingMessages({ data: 1, headers: { h: "1" }, attributes: { n: 1, s: "1" } }, "t");
    expect(attributesOf(first!)).toEqual({ h: "1", n: 1, s: "1" });
    const [second] = outgoingMessages({ data: 1, headers: first!.headers!, attributes: { b: false } }, "t");
    expect(attributesOf(second!)).toEqual({ h: "1", n: 1, s: "1", b: false });
  });

  it("MID-06 a header that does not hold what it says is read as text", () => {
    const mark = "oncebox-json-headers";
    expect(attributesOf({ headers: null })).toEqual({});
    expect(attributesOf({ headers: { n: "x", [mark]: '["n"]' } })).toEqual({ n: "x" });
    for (const broken of ["", "n", "{}", "null"])
      expect(attributesOf({ headers: { n: "1", [mark]: broken } })).toEqual({ n: "1" });
    expect(attributesOf({ headers: { amount: "7", [mark]: '["Amount"]' } })).toEqual({ amount: 7 });
  });

  it("MID-06 anything else is refused rather than lost", () => {
    for (const output of ["text", 1, true, {}, [{ topic: "t" }], [[{ payload: "" }]]])
      expect(() => outgoingMessages(output, "t")).toThrow(InvalidArgumentError);
    expect(() => outgoingMessages({ payload: "" }, undefined)).toThrow(/topic/);
    expect(() => outgoingMessages({ data: () => 1 }, "t")).toThrow(/JSON/);
  });
});
