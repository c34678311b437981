import { describe, expect, it } from "vitest";
import { handlerContext } from "../../src/dispatch/handle-message.js";
import { createDispatcher } from "../../src/index.js";

describe("handlerContext", () => {
  it("makes the signal only when it is read", () => {
    let made = 0;
    const context = handlerContext("store", undefined, "entry", () => {
      made++;
      return new AbortController().signal;
    });
    expect(context).toMatchObject({ store: "store", tx: undefined });
    expect(made).toBe(0);
    expect(context.signal).toBeInstanceOf(AbortSignal);
    expect(made).toBe(1);
  });

  it("a copy has the signal too, and shows no payload", () => {
    const { signal } = new AbortController();
    const context = handlerContext("store", 1, { payload: "secret" }, () => signal);
    expect({ ...context }).toEqual({ store: "store", tx: 1, signal });
    expect(JSON.stringify(context)).not.toContain("secret");
  });
});

const handlers = { "order.created": () => {} };

describe("handlers by topic", () => {
  it.each([
    [{ handlers: { "order.*.created": () => {} } }, /a handler's topic may have a \* only at its end/],
    [{ handlers, ignore: ["*.created"] }, /a topic of ignore may have a \* only at its end/],
    [{ handlers, ignore: ["order.created"] }, /"order.created" has a handler and is in ignore/],
    [{ handlers, ignore: "order.*" }, /ignore must be a list/],
    [{ handlers, ignore: [""] }, /a topic of ignore/],
    [{ handlers, onUnhandled: "drop" }, /onUnhandled must be one of ack, dead, retry/],
  ])("ADD-12 refuses options that could never work: %j", (options, problem) => {
    expect(() => createDispatcher(options as never)).toThrow(problem);
  });
});
