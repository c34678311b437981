import { describe, expect, it } from "vitest";
import { checkHistory } from "../../support/leases/check-history.js";
import type { RecordedCall, Step, StepOf } from "../../support/leases/recorded-call.js";

const sameClock = { from: 0, to: 0 };
const violations = (history: readonly RecordedCall[], offset = sameClock): readonly string[] =>
  checkHistory(history, offset).violations;

type Case = readonly [what: string, ...history: RecordedCall[]];

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
      return [acquired([0, 10], `${key} a`), second].map((call) => ({ ...call, key }));
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

/** Operations of one key, written by hand: from the call to the return, by a clock that is also the database's. */
const between = (calledAt: number, returnedAt: number, step: Step): RecordedCall => ({
  key: "k",
  calledAt,
  returnedAt,
  timeOfDay: { from: calledAt, to: returnedAt },
  step,
});

type Times = readonly [calledAt: number, returnedAt: number];

const leaseMs = 1_000;

/** The database read its clock at the call, unless the end of the lease says otherwise. */
const acquired = ([from, to]: Times, leaseId: string, expiresAt = from + leaseMs): RecordedCall =>
  between(from, to, { kind: "tryBegin", leaseMs, result: { status: "Acquired", leaseId, expiresAt } });

/** By a caller that proposed the lease id. */
const acquiredOwn = ([from, to]: Times, proposed: string, expiresAt = from + leaseMs): RecordedCall =>
  between(from, to, {
    kind: "tryBegin",
    leaseMs,
    proposed,
    result: { status: "Acquired", leaseId: proposed, expiresAt },
  });

const busyOwn = ([from, to]: Times, proposed: string): RecordedCall =>
  between(from, to, { kind: "tryBegin", leaseMs, proposed, result: { status: "Busy", expiresAt: null } });

const busy = ([from, to]: Times, expiresAt: number | null = null): RecordedCall =>
  between(from, to, { kind: "tryBegin", leaseMs, result: { status: "Busy", expiresAt } });

const foundProcessed = ([from, to]: Times): RecordedCall =>
  between(from, to, { kind: "tryBegin", leaseMs, result: { status: "Processed" } });

const renewed = ([from, to]: Times, leaseId: string, expiresAt = from + leaseMs): RecordedCall =>
  between(from, to, { kind: "renew", leaseId, leaseMs, result: { status: "Renewed", expiresAt } });

const finished = ([from, to]: Times, leaseId: string): RecordedCall =>
  between(from, to, { kind: "finish", leaseId, result: { status: "Processed" } });

const released = ([from, to]: Times, leaseId: string): RecordedCall =>
  between(from, to, { kind: "release", leaseId, result: { status: "Released" } });

const lost = ([from, to]: Times, kind: "renew" | "finish" | "release", leaseId: string): RecordedCall => {
  const result = { status: "LeaseLost" } as const;
  return between(from, to, kind === "renew" ? { kind, leaseId, leaseMs, result } : { kind, leaseId, result });
};

const isProcessed = ([from, to]: Times, result: boolean): RecordedCall =>
  between(from, to, { kind: "isProcessed", result });

const marked = ([from, to]: Times): RecordedCall =>
  between(from, to, { kind: "markProcessed", result: true });

const inspected = ([from, to]: Times, result: NonNullable<StepOf<"inspect">["result"]>): RecordedCall =>
  between(from, to, { kind: "inspect", result });

/** Of a caller that died before it had the result. */
const unreturned = (calledAt: number, step: Step): RecordedCall =>
  between(calledAt, Number.POSITIVE_INFINITY, step);
