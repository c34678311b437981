import { describe, expect, it } from "vitest";
import { drainFirst, fair, roundRobin, type SelectionStrategy } from "../../../src/tenants/index.js";

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

  it("IBX-087 OBX-068 round-robin goes on after the store it was at when its time was over", () => {
    const strategy = roundRobin();
    expect(turnsOf(strategy, { a: 9, b: 9, c: 9 }, 2)).toBe("ab");
    expect(turnsOf(strategy, { a: 9, b: 9, c: 9 }, 3)).toBe("cab");
  });

  it("IBX-088 OBX-069 drain-first stays with a store until it has nothing left, then moves to the next", () => {
    expect(turnsOf(drainFirst(), { a: 2, b: 0, c: 1 })).toBe("aaabccab");
    expect(turnsOf(drainFirst(), { a: 0 })).toBe("a");
  });

  it("IBX-088 OBX-069 drain-first goes on with the store it was at", () => {
    const strategy = drainFirst();
    expect(turnsOf(strategy, { a: 1, b: 9 }, 4)).toBe("aabb");
    expect(turnsOf(strategy, { a: 1, b: 9 }, 3)).toBe("bbb");
  });

  it("FUN-07 the fair order asks everyone once, and gives the busy ones turns alternately", () => {
    const turns = turnsOf(fair(inOrder), { a: 3, b: 0, c: 1, d: 0 });
    expect(turns.slice(0, 4)).toBe("abcd");
    expect(turns.replace(/[bd]/g, "")).toBe("acacaca"); // c's last is a look: nothing was left
  });

  it("FUN-07 the fair order asks idle tenants again while another is busy, each after so many of its turns", () => {
    const ids = Array.from({ length: 41 }, (_, index) => `t${index}`);
    const selection = fair().begin(ids);
    const seenAt = new Map<string, number>();
    let busyTurns = 0;
    let longest = 0;
    while (busyTurns < 1_000) {
      const id = selection.next()!;
      if (id === "t0") busyTurns++;
      else {
        longest = Math.max(longest, busyTurns - (seenAt.get(id) ?? 0));
        seenAt.set(id, busyTurns);
      }
      selection.ended(id, id === "t0" ? "more" : "empty");
    }
    expect(seenAt.size).toBe(40);
    expect(longest).toBeLessThanOrEqual(40 / 8 + 1);
  });

  it("FUN-07 the fair order ends when nobody has work, however many are idle", () => {
    const batches = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`t${index}`, 0]));
    expect(turnsOf(fair(), batches, 1_000).match(/t/g)).toHaveLength(100);
  });

  it("FUN-07 the fair order begins anew each time, so that nobody is always the last", () => {
    const last = new Set<string>();
    for (let run = 0; run < 200; run++) last.add(turnsOf(fair(), { a: 0, b: 0, c: 0, d: 0 }).at(-1)!);
    expect([...last].sort().join("")).toBe("abcd");
  });

  it("a store that fails is passed over, and a round of failures is the end", () => {
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
