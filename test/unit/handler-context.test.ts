import { describe, expect, it } from "vitest";
import { handlerContext } from "../../src/dispatch/handle-message.js";

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

  it("has the signal in a copy, too, and no other properties than it was given", () => {
    const { signal } = new AbortController();
    const context = handlerContext("store", 1, { payload: "secret" }, () => signal);
    expect({ ...context }).toEqual({ store: "store", tx: 1, signal });
    expect(JSON.stringify(context)).not.toContain("secret");
  });
});
