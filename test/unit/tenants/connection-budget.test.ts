import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import {
  ConnectionBudget,
  type ConnectionLimits,
  type Pool,
} from "../../../src/tenants/connections/connection-budget.js";

interface TestPool extends Pool {
  readonly name: string;
  closed: number;
  finishClosing: () => void;
}

function pool(name: string, server: string | undefined = "one", size = 1, slow = false): TestPool {
  const made: TestPool = {
    name,
    server,
    size,
    closed: 0,
    finishClosing: () => {},
    close: () =>
      new Promise((resolve) => {
        made.closed++;
        made.finishClosing = resolve;
        if (!slow) resolve();
      }),
  };
  return made;
}

const limits = (perInstance: number, perServer = perInstance): ConnectionLimits => ({
  perInstance,
  perServer,
  perDatabase: 1,
});

describe("connection budget", () => {
  it("ADD-08 closes the pool that was not used for the longest time, and never one in use", async () => {
    const budget = new ConnectionBudget(limits(2));
    const [a, b, c] = [pool("a"), pool("b"), pool("c")];
    await budget.acquire(a);
    await budget.acquire(b);
    budget.release(b);
    budget.release(a);
    await budget.acquire(b); // now a is the older one, and b is in use
    await budget.acquire(c);
    expect([a.closed, b.closed, c.closed]).toEqual([1, 0, 0]);
    expect(budget.taken()).toBe(2);
  });

  it("ADD-08 waits until the server has closed a pool's connections before another pool opens", async () => {
    const budget = new ConnectionBudget(limits(1));
    const [a, b] = [pool("a", "one", 1, true), pool("b")];
    await budget.acquire(a);
    budget.release(a);
    let opened = false;
    const opening = budget.acquire(b).then(() => {
      opened = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect([a.closed, opened, budget.taken()]).toEqual([1, false, 1]);
    a.finishClosing();
    await opening;
    expect(budget.taken()).toBe(1);
  });

  it("ADD-08 one server's cap closes only pools of that server", async () => {
    const budget = new ConnectionBudget(limits(3, 1));
    const [far, a, b] = [pool("far", "two"), pool("a"), pool("b")];
    for (const one of [far, a]) {
      await budget.acquire(one);
      budget.release(one);
    }
    await budget.acquire(b);
    expect([far.closed, a.closed]).toEqual([0, 1]);
    expect([budget.taken("one"), budget.taken("two")]).toEqual([1, 1]);
  });

  it("ADD-08 waiting calls are served in order, without the calls that were aborted", async () => {
    const budget = new ConnectionBudget(limits(1));
    const [a, b, c, d] = [pool("a"), pool("b"), pool("c"), pool("d")];
    await budget.acquire(a);
    const order: string[] = [];
    const gaveUp = new AbortController();
    const waits = [
      budget.acquire(b, gaveUp.signal).then(() => order.push("b")),
      budget.acquire(c).then(() => order.push("c")),
      budget.acquire(d).then(() => order.push("d")),
    ];
    gaveUp.abort(new Error("no longer"));
    await expect(waits[0]).rejects.toThrow("no longer");
    budget.release(a);
    await waits[1];
    budget.release(c);
    await waits[2];
    expect(order).toEqual(["c", "d"]);
  });

  it("ADD-08 a call that waits too long says which setting is too small", async () => {
    const budget = new ConnectionBudget({ ...limits(1), waitMs: 5 });
    await budget.acquire(pool("a"));
    await expect(budget.acquire(pool("b"))).rejects.toThrow(/perInstance, perServer and files/);
  });

  it("ADD-08 a retired pool closes after its last use", async () => {
    const budget = new ConnectionBudget(limits(2));
    const a = pool("a");
    await budget.acquire(a);
    budget.retire(a);
    expect(a.closed).toBe(0);
    budget.release(a);
    await budget.settled();
    expect([a.closed, budget.taken()]).toEqual([1, 0]);
  });

  it("ADD-08 settled() waits for retired pools that are in use, and for no other", async () => {
    const budget = new ConnectionBudget(limits(2));
    const [a, b] = [pool("a"), pool("b")];
    await budget.acquire(a);
    await budget.acquire(b);
    budget.retire(a);
    budget.release(b); // not retired: settled() does not wait for it
    let isSettled = false;
    const settled = budget.settled().then(() => {
      isSettled = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(isSettled).toBe(false);
    budget.release(a);
    await settled;
    expect([a.closed, b.closed]).toEqual([1, 0]);
  });

  it("ADD-08 ADD-09 the slots of a pool that never closes come back", async () => {
    vi.useFakeTimers();
    try {
      const budget = new ConnectionBudget(limits(1));
      const [a, b] = [pool("a", "one", 1, true), pool("b")];
      await budget.acquire(a);
      budget.release(a);
      const opening = budget.acquire(b);
      await vi.advanceTimersByTimeAsync(10_000);
      await opening;
      expect([a.closed, budget.taken()]).toEqual([1, 1]);
    } finally {
      vi.useRealTimers();
    }
  });

  it("ADD-08 refuses limits that cannot hold one pool", () => {
    expect(() => new ConnectionBudget({ perInstance: 1, perDatabase: 2 })).toThrow(/perDatabase/);
    expect(() => new ConnectionBudget({ perInstance: 0, perServer: 1.5 })).toThrow(/perInstance.*perServer/);
  });

  it("ADD-08 no order of uses exceeds a cap, closes a pool in use, or leaves a call waiting for ever", async () => {
    const step = fc.record({ pool: fc.nat(7), ticks: fc.nat(4), slow: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const budget = new ConnectionBudget({ perInstance: 5, perServer: 3, perDatabase: 2, files: 3 });
        const uses = new Map<Pool, number>();
        const tick = () => new Promise((resolve) => setImmediate(resolve));
        const pools = Array.from({ length: 8 }, (_, index): Pool => {
          const made: Pool = {
            server: index < 2 ? undefined : index < 5 ? "one" : "two",
            size: index % 2 === 0 ? 2 : 1,
            async close() {
              expect(uses.get(made) ?? 0).toBe(0);
              await tick();
            },
          };
          return made;
        });
        const check = () => {
          expect(budget.taken()).toBeLessThanOrEqual(5);
          expect(budget.openFiles()).toBeLessThanOrEqual(3);
          expect(budget.taken("one")).toBeLessThanOrEqual(3);
          expect(budget.taken("two")).toBeLessThanOrEqual(3);
        };
        await Promise.all(
          steps.map(async ({ pool: index, ticks, slow }) => {
            const used = pools[index]!;
            if (slow) await tick();
            await budget.acquire(used);
            uses.set(used, (uses.get(used) ?? 0) + 1);
            check();
            for (let left = ticks; left > 0; left--) await tick();
            uses.set(used, uses.get(used)! - 1);
            budget.release(used);
            check();
          }),
        );
      }),
      { numRuns: 60 },
    );
  });
});
