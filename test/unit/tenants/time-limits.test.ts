import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { timeLimits } from "../../../src/base/time-limits.js";

describe("many time limits with one timer", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("FUN-07 each limit is over at its own time, whatever order they came in", () => {
    const limits = timeLimits();
    const over: string[] = [];
    limits.after(3_000, () => over.push("long"));
    limits.after(1_000, () => over.push("short"));
    limits.after(2_000, () => over.push("middle"));
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(999);
    expect(over).toEqual([]);
    vi.advanceTimersByTime(2);
    expect(over).toEqual(["short"]);
    vi.advanceTimersByTime(1_000);
    expect(over).toEqual(["short", "middle"]);
    vi.advanceTimersByTime(1_000);
    expect(over).toEqual(["short", "middle", "long"]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("FUN-07 one that was taken back is never over, and one that came after it still is", () => {
    const limits = timeLimits();
    const over: string[] = [];
    const ended = limits.after(1_000, () => over.push("ended"));
    ended();
    vi.advanceTimersByTime(500);
    limits.after(1_000, () => over.push("later"));
    vi.advanceTimersByTime(600);
    expect(over).toEqual([]);
    vi.advanceTimersByTime(402);
    expect(over).toEqual(["later"]);
  });

  it("FUN-07 a limit may be set while another is over, and one beyond the longest timer is not over at once", () => {
    const limits = timeLimits();
    const over: string[] = [];
    limits.after(1_000, () => {
      over.push("first");
      limits.after(1_000, () => over.push("second"));
    });
    limits.after(2 ** 40, () => over.push("in decades"));
    vi.advanceTimersByTime(1_001);
    expect(over).toEqual(["first"]);
    vi.advanceTimersByTime(1_001);
    expect(over).toEqual(["first", "second"]);
    vi.advanceTimersByTime(2 ** 31);
    expect(over).toEqual(["first", "second"]);
  });
});
