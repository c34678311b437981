import { describe, expect, it } from "vitest";
import { changes } from "../../src/dispatch/timing.js";

describe("changes", () => {
  it("keeps a change that came before the wait, once", async () => {
    const changed = changes();
    changed.notify();
    changed.notify();
    expect(await changed.next(60_000)).toBe(true);
    expect(await changed.next(1)).toBe(false);
  });

  it("waits for the next change, for ever if it must", async () => {
    const changed = changes();
    const next = changed.next(Number.POSITIVE_INFINITY);
    setImmediate(changed.notify);
    expect(await next).toBe(true);
  });

  it("does not wait when there is no time", async () => {
    expect(await changes().next(0)).toBe(false);
    expect(await changes().next(-1)).toBe(false);
  });

  it("lets the event loop run, even if there is always a change", async () => {
    const changed = changes();
    let ticks = 0;
    setImmediate(() => ticks++);
    changed.notify();
    await changed.next(60_000);
    expect(ticks).toBe(1);
  });
});
