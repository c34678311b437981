import { expect, it } from "vitest";
import { decideFault, type Fault, faults } from "../../support/lossy/decide-fault.js";

const requests = 20_000;

function tally(plan: Parameters<typeof decideFault>[0]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (let index = 0; index < requests; index++) {
    const { fault } = decideFault(plan, index);
    counts.set(fault, (counts.get(fault) ?? 0) + 1);
  }
  return counts;
}

it.each<[string, number | undefined, readonly Fault[] | undefined]>([
  ["a fifth of the requests", undefined, undefined],
  ["half of the requests", 0.5, undefined],
  ["every request", 1, undefined],
  ["two kinds", 0.2, ["drop-answer", "reorder"]],
  ["one kind, always", 1, ["cut-request"]],
])("MSG-16 faults are decided in equal shares: %s", (_, share, kinds) => {
  const counts = tally({ seed: "shares", ...(share && { share }), ...(kinds && { kinds }) });
  const each = (requests * (share ?? 0.2)) / (kinds ?? faults).length;
  for (const fault of kinds ?? faults) {
    expect(counts.get(fault), fault).toBeGreaterThan(0.85 * each);
    expect(counts.get(fault), fault).toBeLessThan(1.15 * each);
  }
  expect([...counts.keys()].filter((name) => name !== "none").sort()).toEqual([...(kinds ?? faults)].sort());
});

it("MSG-16 no fault without a share, the same faults with the same seed, others with another", () => {
  expect([...tally({ seed: "none", share: 0 }).keys()]).toEqual(["none"]);
  const first = (seed: string) => Array.from({ length: 200 }, (_, index) => decideFault({ seed }, index));
  expect(first("a")).toEqual(first("a"));
  expect(first("a")).not.toEqual(first("b"));
  expect(first("a").every(({ amount }) => amount >= 0 && amount < 1)).toBe(true);
});
