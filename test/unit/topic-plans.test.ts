import { describe, expect, it } from "vitest";
import { createDispatcher } from "../../src/index.js";

const handlers = { "order.created": () => {} };

describe("handlers by topic", () => {
  it.each([
    [{ handlers: { "order.*.created": () => {} } }, /a handler's topic may have a \* only at its end/],
    [{ handlers, ignore: ["*.created"] }, /a topic of ignore may have a \* only at its end/],
    [{ handlers, ignore: ["order.created"] }, /"order.created" has a handler and is in ignore/],
    [{ handlers, ignore: "order.*" }, /ignore must be a list/],
    [{ handlers, ignore: [""] }, /a topic of ignore/],
    [{ handlers, onUnhandled: "drop" }, /onUnhandled must be one of ack, dead, retry/],
  ])("ADD-12 options that could never work are refused: %j", (options, problem) => {
    expect(() => createDispatcher(options as never)).toThrow(problem);
  });
});
