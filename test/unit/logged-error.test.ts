import { describe, expect, it } from "vitest";
import { loggedError } from "../../src/base/logger.js";

const secret = "hunter2";

/** Each quotes the secret, as errors quote payloads and parameters. */
const thrown: Readonly<Record<string, () => unknown>> = {
  "an error": () => new TypeError(`cannot read ${secret}`),
  "a message of many lines, one of which looks like a frame": () =>
    new Error(`first\n    at ${secret} (file:///app.js:1:1)\n${secret}`),
  "an error whose message was changed after it was made": () =>
    Object.assign(new Error(`was ${secret}\n    at ${secret}.js:1:1`), { message: "other" }),
  "a name and a code that are texts": () =>
    Object.assign(new Error("x"), { name: `for ${secret} only`, code: `no ${secret}!` }),
  "a text": () => secret,
  "an object": () => ({ message: secret, stack: `Error: ${secret}\n    at here (file.js:1:1)` }),
  nothing: () => undefined,
  "an error with a cause": () => new Error("outer", { cause: new Error(secret) }),
  "several errors": () => new AggregateError([new Error(secret)], secret),
  "an error whose properties throw": () =>
    Object.defineProperty(new Error(secret), "stack", {
      get: () => {
        throw new Error(secret);
      },
    }),
  "a message that is its own name": () => new Error("Error"),
};

describe("what a log line says of an error", () => {
  it.each(Object.entries(thrown))("IBX-127 OBX-106 never its message: %s", (_, make) => {
    const logged = loggedError(make());
    expect(JSON.stringify(logged)).not.toContain(secret);
    expect(logged.error).toMatch(/^[\w.$: -]+$/);
  });

  it("IBX-110 its name, its code and the frames of its stack, ten at most", () => {
    const deep = (levels: number): Error =>
      levels === 0 ? Object.assign(new RangeError(secret), { code: "E_TOO_FAR" }) : deep(levels - 1);
    const { error, stack } = loggedError(deep(30));
    expect(error).toBe("RangeError E_TOO_FAR");
    expect(stack).toMatch(/^at deep .*logged-error\.test\.ts:\d+:\d+/);
    expect(stack!.split(", at ").length).toBeLessThanOrEqual(10);
    expect(loggedError(Object.assign(new Error(secret), { number: 1205 })).error).toBe("Error 1205");
  });
});
