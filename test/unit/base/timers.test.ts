import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { abortAfter, processTimers, sleep, withinTime, yieldToEventLoop } from "../../../src/base/async.js";

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

const never = new Promise<never>(() => {});
const tooLate = () => new Error("too late");

describe("time limits", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("FUN-07 each timer expires at its own time, whatever order they were set in", () => {
    const expired: string[] = [];
    processTimers.after(3_000, () => expired.push("long"));
    processTimers.after(1_000, () => expired.push("short"));
    processTimers.after(2_000, () => expired.push("middle"));
    vi.advanceTimersByTime(999);
    expect(expired).toEqual([]);
    vi.advanceTimersByTime(2);
    expect(expired).toEqual(["short"]);
    vi.advanceTimersByTime(1_000);
    expect(expired).toEqual(["short", "middle"]);
    vi.advanceTimersByTime(1_000);
    expect(expired).toEqual(["short", "middle", "long"]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("FUN-07 a cancelled timer never expires, and a later one still does", () => {
    const expired: string[] = [];
    const cancel = processTimers.after(1_000, () => expired.push("cancelled"));
    cancel();
    vi.advanceTimersByTime(500);
    processTimers.after(1_000, () => expired.push("later"));
    vi.advanceTimersByTime(600);
    expect(expired).toEqual([]);
    vi.advanceTimersByTime(402);
    expect(expired).toEqual(["later"]);
  });

  it("FUN-07 a timer may be set while another expires, and one beyond Node's longest does not expire at once", () => {
    const expired: string[] = [];
    processTimers.after(1_000, () => {
      expired.push("first");
      processTimers.after(1_000, () => expired.push("second"));
    });
    processTimers.after(2 ** 40, () => expired.push("in decades"));
    processTimers.after(Number.POSITIVE_INFINITY, () => expired.push("never"));
    vi.advanceTimersByTime(1_001);
    expect(expired).toEqual(["first"]);
    vi.advanceTimersByTime(1_001);
    expect(expired).toEqual(["first", "second"]);
    vi.advanceTimersByTime(2 ** 31);
    expect(expired).toEqual(["first", "second"]);
  });

  it("FUN-07 withinTime returns what the work returns or throws, and leaves no timer behind", async () => {
    expect(await withinTime(1_000, Promise.resolve(5), tooLate)).toBe(5);
    await expect(withinTime(1_000, Promise.reject(new Error("away")), tooLate)).rejects.toThrow("away");
    expect(vi.getTimerCount()).toBe(0);
  });

  it("FUN-07 withinTime rejects when the time is over", async () => {
    const late = expect(withinTime(1_000, never, tooLate)).rejects.toThrow("too late");
    await vi.advanceTimersByTimeAsync(1_000);
    await late;
  });

  it("FUN-07 abortAfter aborts the work's signal with the error that it rejects with", async () => {
    let reason: unknown;
    const work = (signal: AbortSignal) => {
      signal.addEventListener("abort", () => {
        reason = signal.reason;
      });
      return never;
    };
    const late = abortAfter(1_000, work, tooLate).catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await late).toBe(reason);
    expect(reason).toEqual(new Error("too late"));
  });

  it("FUN-07 abortAfter rejects with an error that the work throws before it returns a promise", async () => {
    const broken = (): never => {
      throw new Error("broken");
    };
    await expect(abortAfter(1_000, broken, tooLate)).rejects.toThrow("broken");
    expect(vi.getTimerCount()).toBe(0);
  });
});
