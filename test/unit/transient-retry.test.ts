import { beforeEach, describe, expect, it, vi } from "vitest";
import { type Fault, retryTransient, type TransientRetry } from "../../src/sql/driver.js";

const { sleeps } = vi.hoisted(() => ({ sleeps: [] as number[] }));
// The waits are recorded, not waited for; an abort ends them as it ends the real ones.
vi.mock("../../src/base/async.js", () => ({
  sleep: async (ms: number, signal?: AbortSignal) => {
    sleeps.push(ms);
    await Promise.resolve();
    signal?.throwIfAborted();
  },
}));

const fault = (kind: Fault) => Object.assign(new Error(kind), { kind });
const classify = (error: unknown): Fault => (error as { kind?: Fault }).kind ?? "permanent";

/** Runs the work and, when it fails, what `retryTransient` makes of that. */
const retried = <T>(work: () => Promise<T>, options: Partial<TransientRetry>): Promise<T> =>
  work().catch((error: unknown) => retryTransient(error, work, { classify, ...options }));

/** Fails with these, one per call, and then succeeds. */
function failing(...faults: readonly Error[]) {
  const rest = [...faults];
  const work = vi.fn(async () => {
    const error = rest.shift();
    if (error !== undefined) throw error;
    return "done";
  });
  const run = (options: Partial<TransientRetry> = {}) => retried(work, options);
  return { work, run };
}

describe("transient retry", () => {
  beforeEach(() => {
    sleeps.length = 0;
  });

  it("IBX-104 OBX-082 calls work that succeeds once", async () => {
    const { work, run } = failing();
    expect(await run()).toBe("done");
    expect(work).toHaveBeenCalledTimes(1);
    expect(sleeps).toEqual([]);
  });

  it("IBX-104 OBX-082 repeats after a fault that was rolled back, and after one with an unknown outcome", async () => {
    for (const kind of ["rolledBack", "unknown"] as const) {
      const { work, run } = failing(fault(kind), fault(kind));
      expect(await run()).toBe("done");
      expect(work).toHaveBeenCalledTimes(3);
    }
  });

  it("IBX-104 OBX-082 never repeats after a permanent fault", async () => {
    const broken = fault("permanent");
    const { work, run } = failing(broken);
    await expect(run()).rejects.toBe(broken);
    expect(work).toHaveBeenCalledTimes(1);
    expect(sleeps).toEqual([]);
  });

  it("IBX-104 OBX-082 gives up after four retries, with the last fault, and waits longer each time", async () => {
    const faults = Array.from({ length: 10 }, () => fault("rolledBack"));
    const { work, run } = failing(...faults);
    await expect(run()).rejects.toBe(faults[4]);
    expect(work).toHaveBeenCalledTimes(5);
    expect(sleeps).toHaveLength(4);
    for (const [index, wait] of [20, 80, 250, 800].entries()) {
      expect(sleeps[index]).toBeGreaterThanOrEqual(wait * 0.5);
      expect(sleeps[index]).toBeLessThanOrEqual(wait * 1.5);
    }
  });

  it("IBX-104 OBX-082 waits for seconds while the server is unavailable, and for milliseconds after what follows it", async () => {
    const { run } = failing(
      fault("unavailable"),
      fault("unavailable"),
      fault("unavailable"),
      fault("rolledBack"),
    );
    expect(await run()).toBe("done");
    for (const [index, wait] of [250, 1_500, 4_000, 800].entries()) {
      expect(sleeps[index]).toBeGreaterThanOrEqual(wait * 0.5);
      expect(sleeps[index]).toBeLessThanOrEqual(wait * 1.5);
    }
  });

  it("IBX-104 OBX-082 reports each retry before it waits", async () => {
    const [first, second] = [fault("rolledBack"), fault("unknown")];
    const reported: unknown[] = [];
    const { run } = failing(first, second);
    await run({ onRetry: (error, retry) => reported.push([error, retry, sleeps.length]) });
    expect(reported).toEqual([
      [first, 1, 0],
      [second, 2, 1],
    ]);
  });

  it("IBX-104 OBX-082 an abort during the work ends the retries with the work's own error", async () => {
    const stop = new AbortController();
    const error = fault("rolledBack");
    const work = vi.fn(async () => {
      stop.abort(new Error("time is up"));
      throw error;
    });
    const call = retried(work, { signal: stop.signal });
    await expect(call).rejects.toBe(error);
    expect(work).toHaveBeenCalledTimes(1);
  });

  it("IBX-104 OBX-082 an abort during the wait rejects with the signal's reason and calls nothing more", async () => {
    const stop = new AbortController();
    const reason = new Error("time is up");
    const { work, run } = failing(fault("rolledBack"), fault("rolledBack"));
    await expect(run({ signal: stop.signal, onRetry: () => stop.abort(reason) })).rejects.toBe(reason);
    expect(work).toHaveBeenCalledTimes(1);
  });
});
