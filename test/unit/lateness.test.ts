import { describe, expect, it } from "vitest";
import { lateness } from "../../src/dispatch/timing.js";

const holdThread = (ms: number): void => {
  const end = performance.now() + ms;
  while (performance.now() < end);
};

describe("lateness", () => {
  it("FUN-03 sees that the thread was held, and believes it half as much with every new run", async () => {
    const late = lateness();
    const stop = late.watch();
    holdThread(100);
    await expect.poll(late.worstMs).toBeGreaterThan(70);
    stop();
    const seen = late.worstMs();
    late.watch()();
    expect(late.worstMs()).toBe(seen / 2);
  });
});
