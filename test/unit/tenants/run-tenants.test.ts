import { describe, expect, it } from "vitest";
import { virtualTime } from "../../../bench/simulation/virtual-time.js";
import type { LogFields, Logger } from "../../../src/base/logger.js";
import { timeBudget } from "../../../src/index.js";
import { fair, untilDone } from "../../../src/tenants/scheduling/fair-selection.js";
import { runTenants, type TenantRun, tenantQuarantine } from "../../../src/tenants/scheduling/run-tenants.js";

function logged() {
  const lines: [string, LogFields][] = [];
  const write = (message: string, fields: LogFields) => void lines.push([message, fields]);
  const logger: Logger = { debug: write, info: write, warn: write, error: write };
  return { lines, logger };
}

const run = (parts: Partial<TenantRun> & Pick<TenantRun, "ids" | "turn">) =>
  runTenants({
    selection: fair(() => 0.999),
    concurrency: 2,
    budget: timeBudget(60_000),
    turnMs: 10_000,
    quarantine: tenantQuarantine(),
    logger: logged().logger,
    ...parts,
  });

describe("turns of many tenants", () => {
  it("FUN-07 a tenant's failure is logged with its identifier and without the error's text, and the others have their turns", async () => {
    const { lines, logger } = logged();
    const turns: string[] = [];
    const result = await run({
      ids: ["a", "bad", "c"],
      logger,
      async turn(id) {
        turns.push(id);
        if (id === "bad")
          throw Object.assign(new Error("postgres://user:hidden@host"), { code: "ECONNREFUSED" });
        return false;
      },
    });
    expect(turns.sort()).toEqual(["a", "bad", "c"]);
    expect(result).toMatchObject({ failed: ["bad"], left: [], turns: 3 });
    expect(lines).toEqual([
      ["a tenant failed and is quarantined", { store: "bad", forMs: 5_000, reason: "Error ECONNREFUSED" }],
    ]);
  });

  it("FUN-07 a tenant that failed is quarantined, longer each time, and has a turn after that", async () => {
    let nowMs = 0;
    const quarantine = tenantQuarantine(() => nowMs);
    let works = false;
    const once = () =>
      run({
        ids: ["a"],
        quarantine,
        async turn() {
          if (!works) throw new Error("away");
          return false;
        },
      });
    expect(await once()).toMatchObject({ turns: 1, failed: ["a"] });
    expect(await once()).toMatchObject({ turns: 0, quarantined: ["a"] });
    nowMs += 5_000;
    expect(await once()).toMatchObject({ turns: 1 });
    nowMs += 5_000;
    expect(await once()).toMatchObject({ turns: 0 });
    nowMs += 5_000;
    works = true;
    expect(await once()).toMatchObject({ turns: 1, failed: [] });
    works = false;
    await once();
    nowMs += 5_000; // from the start again
    expect(await once()).toMatchObject({ turns: 1 });
  });

  it("FUN-07 the quarantine of a tenant grows up to five minutes", () => {
    let nowMs = 0;
    const quarantine = tenantQuarantine(() => nowMs);
    const waits = Array.from({ length: 9 }, () => {
      nowMs += 1;
      return quarantine.failed("a");
    });
    expect(waits).toEqual([5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000, 300_000]);
  });

  it("FUN-07 a turn that never ends is given up after its time, and the others have theirs", async () => {
    const turns: string[] = [];
    const result = await run({
      ids: ["hangs", "a", "b", "c"],
      turnMs: 300,
      turn(id) {
        turns.push(id);
        return id === "hangs" ? new Promise(() => {}) : Promise.resolve(false);
      },
    });
    expect(turns).toEqual(["hangs", "a", "b", "c"]);
    expect(result).toMatchObject({ failed: ["hangs"], left: [] });
  });

  it("FUN-07 a turn that the end of the run's time cuts off does not quarantine its tenant, which is left to another run", async () => {
    const quarantine = tenantQuarantine();
    const result = await run({
      ids: ["a"],
      quarantine,
      budget: timeBudget(300),
      turn: () => new Promise(() => {}),
    });
    expect(result).toMatchObject({ turns: 1, failed: [], left: ["a"] });
    expect(quarantine.has("a")).toBe(false);
  });

  it("FUN-07 ADD-08 an abandoned turn is aborted, and gives its connections back at once", async () => {
    const released: string[] = [];
    let reason: unknown;
    const result = await run({
      ids: ["hangs"],
      turnMs: 300,
      reserve: async (id) => () => void released.push(id),
      turn: (_id, _turnBudget, abandoned) => {
        abandoned.addEventListener("abort", () => {
          reason = abandoned.reason;
        });
        return new Promise(() => {});
      },
    });
    expect(result.failed).toEqual(["hangs"]);
    expect(released).toEqual(["hangs"]);
    expect(String(reason)).toContain("turnMs (300 ms)");
  });

  it("FUN-07 ADD-08 tenants that wait for a connection take no slot, and no more turns than the slots run at once", async () => {
    const turns: string[] = [];
    const waiting: (() => void)[] = [];
    let running = 0;
    let most = 0;
    const result = await run({
      ids: ["w1", "w2", "w3", "a", "b", "c"],
      async reserve(id) {
        if (id.startsWith("w")) await new Promise<void>((resolve) => waiting.push(resolve));
        return () => {};
      },
      async turn(id) {
        most = Math.max(most, ++running);
        turns.push(id);
        await new Promise((resolve) => setTimeout(resolve, 5));
        if (id === "c") for (const resolve of waiting.splice(0)) resolve();
        running--;
        return false;
      },
    });
    expect(turns.slice(0, 3)).toEqual(["a", "b", "c"]);
    expect(turns.slice(3).sort()).toEqual(["w1", "w2", "w3"]);
    expect(most).toBeLessThanOrEqual(2);
    expect(result).toMatchObject({ turns: 6, failed: [], left: [] });
  });

  it("FUN-07 a turn that throws before it returns a promise leaves no timer behind", async () => {
    const open = new Set<() => void>();
    const result = await run({
      ids: ["a"],
      timers: {
        after(_ms, expired) {
          open.add(expired);
          return () => void open.delete(expired);
        },
      },
      turn() {
        throw new Error("no dispatchers for it");
      },
    });
    expect(result).toMatchObject({ failed: ["a"] });
    expect(open.size).toBe(0);
  });

  it("FUN-07 a selection strategy that throws ends the run: no turn starts after that", async () => {
    const started: string[] = [];
    let end = (): void => {};
    const slow = new Promise<boolean>((resolve) => {
      end = () => resolve(false);
    });
    const names = ["bad", "slow", "later"];
    const result = run({
      ids: names,
      selection: {
        sequential: false,
        begin: () => ({
          next: () => names.shift(),
          ended(id) {
            if (id === "bad") throw new Error("of the strategy");
          },
        }),
      },
      turn(id) {
        started.push(id);
        return id === "slow" ? slow : Promise.resolve(false);
      },
    });
    await expect(result).rejects.toThrow("of the strategy");
    end();
    await new Promise(setImmediate);
    expect(started).toEqual(["bad", "slow"]);
  });

  it("FUN-07 a turn's budget is turnMs, and never more than the run's remaining time", async () => {
    const seen: number[] = [];
    const turn: TenantRun["turn"] = async (_id, turnBudget) => {
      seen.push(turnBudget.remainingMs());
      return false;
    };
    await run({ ids: ["a"], turnMs: 700, turn });
    await run({ ids: ["a"], turnMs: 70_000, budget: timeBudget(800), turn });
    await run({ ids: ["a"], turnMs: 900, budget: timeBudget(Number.POSITIVE_INFINITY), turn });
    expect(seen[2]).toBeGreaterThan(0);
    expect(seen[2]).toBeLessThanOrEqual(900);
    expect(seen[0]).toBeLessThanOrEqual(700);
    expect(seen[1]).toBeLessThanOrEqual(800);
  });

  it("FUN-07 tenants that had no turn, or have more to do, are left to another run", async () => {
    let remainingMs = 1_000;
    const budget = { signal: new AbortController().signal, remainingMs: () => remainingMs };
    const result = await run({
      ids: ["a", "b", "c", "d"],
      concurrency: 1,
      budget,
      async turn(id) {
        remainingMs -= 300;
        return id === "b";
      },
    });
    expect(result).toMatchObject({ turns: 3, left: ["b", "d"] });
  });

  it("FUN-07 a busy tenant's turns and a light one's alternate, however much the busy one has", async () => {
    const turns: string[] = [];
    const left: Record<string, number> = { busy: 50, light: 2 };
    await run({
      ids: ["busy", "light"],
      concurrency: 1,
      async turn(id) {
        turns.push(id);
        return left[id]!-- > 0;
      },
    });
    expect(turns.slice(0, 6)).toEqual(["busy", "light", "busy", "light", "busy", "light"]);
    expect(turns.filter((id) => id === "busy")).toHaveLength(51);
  });

  it("FUN-07 a strategy that goes in rounds gives a failed tenant no second turn", async () => {
    let asked = 0;
    const { roundRobin } = await import("../../../src/tenants/scheduling/selection.js");
    let batches = 3;
    await run({
      ids: ["bad", "good"],
      selection: roundRobin(),
      async turn(id) {
        if (id === "good") return batches-- > 0;
        asked++;
        throw new Error("away");
      },
    });
    expect({ asked, batches }).toEqual({ asked: 1, batches: -1 });
  });

  /** In simulated time: one tenant's turns take long, and the others have nothing until one of them gets a message. */
  const besideLongTurns = async (turnMs: number, messageAt: number) => {
    const time = virtualTime();
    const polls: number[] = [];
    let foundAt: number | undefined;
    let batches = 4;
    const budget = {
      signal: new AbortController().signal,
      remainingMs: () => Math.max(0, 120_000 - time.now()),
    };
    const result = await time.run(
      run({
        ids: ["busy", "light", "other"],
        selection: fair(() => 0.999, time.now),
        budget,
        turnMs: 60_000,
        timers: time,
        async turn(id) {
          await time.sleep(id === "busy" ? turnMs : 2);
          if (id === "busy") return --batches > 0;
          if (id === "light") polls.push(time.now());
          if (id !== "light" || time.now() < messageAt || foundAt !== undefined) return false;
          foundAt = time.now();
          return true;
        },
      }),
    );
    return { polls, foundAt: foundAt!, result };
  };

  it("FUN-07 ADD-09 a message of an idle tenant waits no longer than the idle back-off, however long the turns of others take", async () => {
    for (const messageAt of [3_000, 9_000, 21_000, 33_000]) {
      const { foundAt, polls, result } = await besideLongTurns(15_000, messageAt);
      expect(foundAt).toBeGreaterThanOrEqual(messageAt);
      expect(foundAt - messageAt).toBeLessThanOrEqual(5_000 + 10); // simulated
      expect(polls.length).toBeLessThan(25); // a poll each half second would be 120
      expect(result).toMatchObject({ left: [], failed: [] });
    }
  });

  it("FUN-07 ADD-09 idle tenants are not polled again because of a tenant that does not answer", async () => {
    const time = virtualTime();
    const turns: string[] = [];
    const budget = { signal: new AbortController().signal, remainingMs: () => 60_000 - time.now() };
    await time.run(
      run({
        ids: ["hangs", "a", "b"],
        selection: fair(() => 0.999, time.now),
        budget,
        timers: time,
        async turn(id) {
          turns.push(id);
          await time.sleep(id === "hangs" ? 2_000 : 2);
          if (id === "hangs") throw new Error("no answer");
          return false;
        },
      }),
    );
    expect(turns).toEqual(["hangs", "a", "b"]);
  });

  it("FUN-04 FUN-07 maintenance gives tenants with nothing to do one turn, however long others take", async () => {
    const turns: string[] = [];
    let batches = 50;
    const result = await run({
      ids: ["a", "large", "b"],
      selection: untilDone(),
      async turn(id) {
        turns.push(id);
        return id === "large" && --batches > 0;
      },
    });
    expect(turns.filter((id) => id !== "large").sort()).toEqual(["a", "b"]);
    expect(result).toMatchObject({ turns: 52, left: [] });
  });
});
