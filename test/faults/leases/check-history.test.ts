import { describe, expect, it } from "vitest";
import { checkHistory } from "../../support/leases/check-history.js";
import type { Operation } from "../../support/leases/operation.js";
import {
  acquired,
  acquiredOwn,
  busy,
  busyOwn,
  finished,
  foundProcessed,
  inspected,
  isProcessed,
  leaseMs,
  lost,
  marked,
  released,
  renewed,
  unreturned,
} from "../../support/leases/written-history.js";

const sameClock = { from: 0, to: 0 };
const violations = (history: readonly Operation[], offset = sameClock): readonly string[] =>
  checkHistory(history, offset).violations;

type Case = readonly [what: string, ...history: Operation[]];

describe("the checker of leases accepts", () => {
  const accepted: readonly Case[] = [
    [
      "a key that is acquired and finished",
      acquired([0, 5], "a"),
      finished([10, 15], "a"),
      foundProcessed([20, 25]),
    ],
    [
      "callers at once of which one acquires it",
      busy([0, 10], 1_003),
      acquired([1, 9], "a", 1_003),
      busy([2, 8]),
      isProcessed([3, 4], false),
    ],
    [
      "a Busy of a caller that returned before the winner did",
      acquired([0, 50], "a", 1_005),
      busy([10, 20], 1_005),
    ],
    [
      "a Busy of a caller that was called before the key was released, though it returned after",
      acquired([0, 5], "a"),
      busy([10, 40]),
      released([20, 25], "a"),
    ],
    [
      "a takeover at the end of the lease",
      acquired([0, 5], "a"),
      acquired([999, 1_002], "b", 1_000 + leaseMs),
      lost([1_003, 1_004], "finish", "a"),
      finished([1_005, 1_006], "b"),
    ],
    [
      "an expired lease whose holder is refused though nobody took over",
      acquired([0, 5], "a"),
      lost([1_001, 1_002], "finish", "a"),
      lost([1_003, 1_004], "renew", "a"),
      lost([1_005, 1_006], "release", "a"),
      inspected([1_007, 1_008], { status: "Free", attempts: 1, leaseUntil: null }),
    ],
    [
      "a finish that was called within the lease and returned after it",
      acquired([0, 5], "a"),
      finished([990, 1_100], "a"),
    ],
    [
      "a released key that the next caller acquires at once",
      acquired([0, 5], "a"),
      released([10, 15], "a"),
      acquired([16, 20], "b"),
      finished([21, 25], "b"),
      inspected([26, 27], { status: "Processed", attempts: 2, leaseUntil: null }),
    ],
    [
      "a renewed lease that outlives its first end",
      acquired([0, 5], "a"),
      renewed([900, 905], "a"),
      busy([1_500, 1_505], 1_900),
      inspected([1_600, 1_601], { status: "Leased", attempts: 1, leaseUntil: 1_900 }),
      finished([1_890, 1_895], "a"),
    ],
    [
      "a repeated finish of the same lease, also after its end",
      acquired([0, 5], "a"),
      finished([10, 15], "a"),
      finished([5_000, 5_005], "a"),
    ],
    [
      "a key that is marked while it is leased: its holder loses it",
      acquired([0, 5], "a"),
      marked([10, 15]),
      lost([20, 25], "finish", "a"),
      isProcessed([30, 35], true),
    ],
    [
      "a finish of a killed holder that took effect",
      acquired([0, 5], "a"),
      unreturned(10, { kind: "finish", leaseId: "a" }),
      foundProcessed([20, 25]),
    ],
    [
      "a finish of a killed holder that had no effect",
      acquired([0, 5], "a"),
      unreturned(10, { kind: "finish", leaseId: "a" }),
      busy([20, 25], 1_000),
      acquired([1_001, 1_002], "b"),
    ],
    [
      "a lease of a killed caller that nobody knows, and its end as others were told it",
      unreturned(0, { kind: "tryBegin", leaseMs }),
      busy([20, 25], 1_003),
      busy([900, 905], 1_003),
      acquired([1_003, 1_010], "b", 1_004 + leaseMs),
      inspected([1_011, 1_012], { status: "Leased", attempts: 2, leaseUntil: 1_004 + leaseMs }),
    ],
    [
      "a call that never returned and took effect long after",
      unreturned(0, { kind: "tryBegin", leaseMs }),
      acquired([10, 15], "a"),
      released([20, 25], "a"),
      busy([500, 505], 1_490),
    ],
    [
      "a release of a killed holder that freed the key",
      acquired([0, 5], "a"),
      unreturned(10, { kind: "release", leaseId: "a" }),
      acquired([20, 25], "b"),
    ],
    [
      "a renewal of a killed holder",
      acquired([0, 5], "a"),
      unreturned(800, { kind: "renew", leaseId: "a", leaseMs }),
      busy([1_500, 1_505], 1_850),
    ],
    [
      "a repeated call that finds the lease that it proposed",
      acquiredOwn([0, 5], "a"),
      acquiredOwn([10, 15], "a", 1_000),
      finished([20, 25], "a"),
      inspected([26, 27], { status: "Processed", attempts: 1, leaseUntil: null }),
    ],
    [
      "a repeated call whose first answer was lost",
      unreturned(0, { kind: "tryBegin", leaseMs, proposed: "a" }),
      acquiredOwn([10, 15], "a", 1_003),
      inspected([26, 27], { status: "Leased", attempts: 1, leaseUntil: 1_003 }),
    ],
    [
      "a repeated call after the lease, which is a new one",
      acquiredOwn([0, 5], "a"),
      acquiredOwn([1_500, 1_505], "a"),
      inspected([1_600, 1_605], { status: "Leased", attempts: 2, leaseUntil: 2_500 }),
    ],
    ["a key that nobody knows", inspected([0, 1], { status: "Unknown" }), isProcessed([2, 3], false)],
  ];
  for (const [what, ...history] of accepted)
    it(what, () => {
      expect(violations(history)).toEqual([]);
    });
});

describe("the checker of leases finds", () => {
  const found: readonly Case[] = [
    ["two winners at once", acquired([0, 10], "a"), acquired([5, 12], "b")],
    [
      "two winners of one generation whose leases ended before anything else happened",
      acquired([0, 10], "a"),
      acquired([5, 12], "b"),
      acquired([3_000, 3_005], "c"),
      finished([3_010, 3_015], "c"),
    ],
    [
      "a takeover before the end of the lease",
      acquired([0, 5], "a"),
      acquired([990, 1_100], "b", 999 + leaseMs),
    ],
    ["a finish after the lease", acquired([0, 5], "a"), finished([1_001, 1_002], "a")],
    [
      "a finish of a lease that another took over",
      acquired([0, 5], "a"),
      acquired([1_000, 1_001], "b"),
      finished([1_002, 1_003], "a"),
    ],
    [
      "two leases that both finish",
      acquired([0, 5], "a"),
      acquired([1_000, 1_001], "b"),
      finished([1_002, 1_003], "b"),
      finished([999, 1_500], "a"),
    ],
    ["a release by one that does not hold the key", acquired([0, 5], "a"), released([10, 15], "b")],
    ["a release after the lease", acquired([0, 5], "a"), released([1_001, 1_002], "a")],
    ["a second release", acquired([0, 5], "a"), released([10, 15], "a"), released([20, 25], "a")],
    ["a renewal after the lease", acquired([0, 5], "a"), renewed([1_001, 1_002], "a")],
    [
      "a takeover of a renewed lease",
      acquired([0, 5], "a"),
      renewed([900, 905], "a"),
      acquired([1_100, 1_105], "b"),
    ],
    ["a holder that is refused within its lease", acquired([0, 5], "a"), lost([10, 15], "finish", "a")],
    [
      "a holder that is refused although it has finished",
      acquired([0, 5], "a"),
      finished([10, 15], "a"),
      lost([20, 25], "finish", "a"),
    ],
    ["a Busy that nobody causes", busy([0, 5])],
    ["a Busy after the end of the lease", acquired([0, 5], "a"), busy([1_001, 1_002])],
    ["a Busy after the release", acquired([0, 5], "a"), released([10, 15], "a"), busy([20, 25])],
    ["a Busy with the end of another lease", acquired([0, 5], "a"), busy([10, 15], 2_000)],
    [
      "a Busy that a released lease of an unknown caller cannot cause twice with two ends",
      unreturned(0, { kind: "tryBegin", leaseMs }),
      busy([10, 15], 1_003),
      busy([20, 25], 1_004),
    ],
    [
      "a takeover too early of a lease of a killed caller",
      unreturned(100, { kind: "tryBegin", leaseMs }),
      busy([110, 115]),
      acquired([900, 905], "b"),
    ],
    [
      "a processed key that is acquired",
      acquired([0, 5], "a"),
      finished([10, 15], "a"),
      acquired([20, 25], "b"),
    ],
    [
      "a processed key that is forgotten",
      acquired([0, 5], "a"),
      finished([10, 15], "a"),
      isProcessed([20, 25], false),
    ],
    ["a key that is processed before it was finished", acquired([0, 5], "a"), foundProcessed([10, 15])],
    [
      "a holder that finishes a key that was marked",
      acquired([0, 5], "a"),
      marked([10, 15]),
      finished([20, 25], "a"),
    ],
    [
      "a generation that is not counted",
      acquired([0, 5], "a"),
      released([10, 15], "a"),
      acquired([20, 25], "b"),
      inspected([26, 27], { status: "Leased", attempts: 1, leaseUntil: 1_020 }),
    ],
    ["a lease that is not known", acquired([0, 5], "a"), inspected([10, 15], { status: "Unknown" })],
    [
      "a repeated call that got a second lease within the first",
      acquiredOwn([0, 5], "a"),
      acquiredOwn([10, 15], "a"),
    ],
    ["a repeated call that does not find its own lease", acquiredOwn([0, 5], "a"), busyOwn([10, 15], "a")],
    ["a proposed lease within that of another", acquired([0, 5], "a"), acquiredOwn([10, 15], "b")],
    [
      "a lease id that is given twice",
      acquired([0, 5], "a"),
      released([10, 15], "a"),
      acquired([20, 25], "a"),
    ],
  ];
  for (const [what, ...history] of found)
    it(what, () => {
      expect(violations(history)).toHaveLength(1);
    });

  it("the one key of many", () => {
    const keys = ["good", "bad", "fine"];
    const history = keys.flatMap((key) => {
      const second = key === "bad" ? acquired([5, 12], `${key} b`) : busy([5, 12], 1_000);
      return [acquired([0, 10], `${key} a`), second].map((operation) => ({ ...operation, key }));
    });
    expect(violations(history)).toEqual([expect.stringMatching(/^bad: no order explains it\./)]);
  });
});

describe("the database's clock, as the checker of leases finds it in a history", () => {
  const ahead = 5_000_000;
  const history = [
    acquired([0, 4], "a", ahead + 2 + leaseMs),
    acquired([1_003, 1_010], "b", ahead + 1_004 + leaseMs),
  ];

  it("is within the calls that gave a lease", () => {
    expect(checkHistory(history)).toEqual({ violations: [], clockBoundsMs: 7 });
  });

  it("is what a holder is late by", () => {
    const late = finished([2_100, 2_101], "b");
    expect(checkHistory([...history, late]).violations).toHaveLength(1);
    expect(checkHistory([...history, finished([1_900, 1_901], "b")]).violations).toEqual([]);
  });

  it("must be one clock: callers with clocks of their own are found", () => {
    const fast = acquired([2_100, 2_105], "c", ahead + 2_600 + leaseMs);
    expect(checkHistory([...history, { ...fast, key: "other" }]).violations).toEqual([
      expect.stringContaining("not of one clock"),
    ]);
  });
});
