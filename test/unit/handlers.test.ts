import { describe, expect, it } from "vitest";
import { createDispatcher, type HandlerContext } from "../../src/index.js";
import { message, startRun } from "../support/scripted-run.js";

it("a handler's context has the signal in a copy, too, and nothing of the message", async () => {
  const contexts: HandlerContext[] = [];
  const run = startRun({
    claims: [[message(1, { payload: "secret" })]],
    handlers: { t: (_, context) => contexts.push({ ...context }) },
  });
  await run.ended;
  expect(contexts).toEqual([{ store: "s", tx: undefined, signal: expect.any(AbortSignal) }]);
  expect(JSON.stringify(contexts)).not.toContain("secret");
});

const handlers = { "order.created": () => {} };

describe("handlers by topic", () => {
  it.each([
    [{ handlers: { "order.*.created": () => {} } }, /a handler's topic may have a \* only at its end/],
    [{ handlers, ignore: ["*.created"] }, /a topic of ignore may have a \* only at its end/],
    [{ handlers, ignore: ["order.created"] }, /"order.created" has a handler and is in ignore/],
    [{ handlers, ignore: "order.*" }, /ignore must be a list/],
    [{ handlers, ignore: [""] }, /a topic of ignore/],
    [{ handlers, onUnhandled: "bySource" }, /onUnhandled: "bySource" needs sources/],
    [{ handlers, sources: "stripe" }, /sources must be a list of names/],
    [{ handlers, onUnhandled: "drop" }, /onUnhandled must be one of ack, bySource, dead, retry/],
  ])("ADD-12 refuses options that could never work: %j", (options, problem) => {
    expect(() => createDispatcher(options as never)).toThrow(problem);
  });
});
