import { describe, expect, it } from "vitest";
import { sleep, yieldToEventLoop } from "../../src/base/timers.js";

describe("sleep", () => {
  it("ends after its time, and leaves no listener on the signal", async () => {
    const { signal } = new AbortController();
    let listeners = 0;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...given: Parameters<typeof add>) => {
      listeners++;
      add(...given);
    };
    signal.removeEventListener = (...given: Parameters<typeof remove>) => {
      listeners--;
      remove(...given);
    };
    await sleep(1, signal);
    expect(listeners).toBe(0);
  });

  it("ends at once with the signal's own reason", async () => {
    const reason = new Error("the budget is used up");
    await expect(sleep(60_000, AbortSignal.abort(reason))).rejects.toBe(reason);
    const later = new AbortController();
    const asleep = sleep(60_000, later.signal);
    later.abort(reason);
    await expect(asleep).rejects.toBe(reason);
  });
});

describe("yieldToEventLoop", () => {
  it("lets callbacks that are due run first", async () => {
    let happened = false;
    setImmediate(() => {
      happened = true;
    });
    await yieldToEventLoop();
    expect(happened).toBe(true);
  });
});
