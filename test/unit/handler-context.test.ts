import { expect, it } from "vitest";
import type { HandlerContext } from "../../src/index.js";
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
