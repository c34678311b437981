import { describe, expect, it } from "vitest";
import { drainFirst, fair, roundRobin, type SelectionStrategy } from "../../../src/app/tenants.js";

/** Turns in the order they were given, while the stores have so many batches. */
function turnsOf(strategy: SelectionStrategy, batches: Record<string, number>, most = 100): string {
  const left = { ...batches };
  const selection = strategy.begin(Object.keys(batches));
  const turns: string[] = [];
  while (turns.length < most) {
    const id = selection.next();
    if (id === undefined) break;
    turns.push(id);
    const found = left[id]! > 0;
    left[id]!--;
    selection.ended(id, found ? "more" : "empty");
  }
  return turns.join("");
}

const inOrder = () => 0.999; // swaps each one with itself

describe("selection", () => {
  it("IBX-086 IBX-087 OBX-067 OBX-068 round-robin takes one batch from each store in order, round and round", () => {
    expect(turnsOf(roundRobin(), { a: 3, b: 1, c: 2 })).toBe("abcabcabca");
    expect(turnsOf(roundRobin(), { a: 0, b: 0, c: 0 })).toBe("abc");
    expect(turnsOf(roundRobin(), {})).toBe("");
  });

  it("IBX-087 OBX-068 round-robin continues after the store of its last turn", () => {
    const strategy = roundRobin();
    expect(turnsOf(strategy, { a: 9, b: 9, c: 9 }, 2)).toBe("ab");
    expect(turnsOf(strategy, { a: 9, b: 9, c: 9 }, 3)).toBe("cab");
  });

  it("IBX-088 OBX-069 drain-first stays with a store until it has nothing left, then moves to the next", () => {
    expect(turnsOf(drainFirst(), { a: 2, b: 0, c: 1 })).toBe("aaabccab");
    expect(turnsOf(drainFirst(), { a: 0 })).toBe("a");
  });

  it("IBX-088 OBX-069 drain-first continues with the store of its last turn", () => {
    const strategy = drainFirst();
    expect(turnsOf(strategy, { a: 1, b: 9 }, 4)).toBe("aabb");
    expect(turnsOf(strategy, { a: 1, b: 9 }, 3)).toBe("bbb");
  });

  it("FUN-07 the fair order polls every tenant once, and gives busy tenants turns alternately", () => {
    const turns = turnsOf(fair(inOrder), { a: 3, b: 0, c: 1, d: 0 });
    expect(turns.slice(0, 4)).toBe("abcd");
    expect(turns.replace(/[bd]/g, "")).toBe("acacaa"); // c's second turn found nothing: it is idle
  });

  /** One busy tenant among idle ones, one turn at a time. Returns the times of each tenant's polls. */
  const pollsBeside = (
    idle: number,
    turnMs: number,
    endMs: number,
    hadWork: (id: string, at: number) => boolean,
  ) => {
    let nowMs = 0;
    const ids = ["busy", ...Array.from({ length: idle }, (_, index) => `t${index}`)];
    const selection = fair(inOrder, () => nowMs).begin(ids);
    const polls = new Map<string, number[]>(ids.map((id) => [id, []]));
    while (nowMs < endMs) {
      const id = selection.next()!;
      polls.get(id)!.push(nowMs);
      if (id === "busy") nowMs += turnMs;
      selection.ended(id, id === "busy" || hadWork(id, nowMs) ? "more" : "empty");
    }
    return polls;
  };
  const between = (times: readonly number[]) => times.slice(1).map((at, index) => at - times[index]!);

  it("FUN-07 ADD-09 the fair order backs off from an idle tenant, up to 5 s, while another is busy", () => {
    const polls = pollsBeside(3, 100, 40_000, () => false);
    for (const id of ["t0", "t1", "t2"])
      expect(between(polls.get(id)!)).toEqual([
        500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000, 5_000, 5_000, 5_000,
      ]);
  });

  it("FUN-07 ADD-09 a tenant that had work is polled soon again", () => {
    const polls = pollsBeside(1, 100, 20_000, (id, at) => id === "t0" && at >= 12_000 && at < 13_000);
    const waits = between(polls.get("t0")!);
    expect(waits.slice(0, 5)).toEqual([500, 1_000, 2_000, 4_000, 5_000]); // the last one finds it
    expect(waits.slice(-4)).toEqual([100, 500, 1_000, 2_000]);
  });

  it("FUN-07 where more idle tenants are due than may be polled, each is polled after a bounded number of turns of the busy one", () => {
    const polls = pollsBeside(400, 1_000, 500_000, () => false);
    const longest = Math.max(...[...polls.values()].flatMap(between));
    expect(longest).toBeLessThanOrEqual((400 / 8 + 1) * 1_000);
  });

  it("FUN-07 a running turn counts as one with work when it is longer than a poll may be", () => {
    const waitFor = (pollTimeoutMs: number) => {
      const selection = fair(inOrder, () => 0).begin(["slow", "idle"], pollTimeoutMs);
      expect([selection.next(), selection.next()]).toEqual(["slow", "idle"]);
      selection.ended("idle", "empty");
      expect(selection.next()).toBeUndefined();
      return selection.nextMs!();
    };
    expect(waitFor(2_000)).toBe(2_500);
    expect(waitFor(10_000)).toBe(10_500);
  });

  it("FUN-07 the fair order ends when no tenant has work, however many are idle", () => {
    const batches = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`t${index}`, 0]));
    expect(turnsOf(fair(), batches, 1_000).match(/t/g)).toHaveLength(100);
  });

  it("FUN-07 the fair order is a new one each time, so that no tenant is always the last", () => {
    const last = new Set<string>();
    for (let run = 0; run < 200; run++) last.add(turnsOf(fair(), { a: 0, b: 0, c: 0, d: 0 }).at(-1)!);
    expect([...last].sort().join("")).toBe("abcd");
  });

  it("a failed store has no second turn, and a round of failures is the end", () => {
    for (const strategy of [roundRobin(), drainFirst(), fair(inOrder)]) {
      const selection = strategy.begin(["a", "b"]);
      for (const id of ["a", "b"]) {
        expect(selection.next()).toBe(id);
        selection.ended(id, "failed");
      }
      expect(selection.next()).toBeUndefined();
    }
  });
});
