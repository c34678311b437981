import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkKey } from "../../support/leases/check-key.js";
import { readingOf } from "../../support/leases/clock-offset.js";
import { applied, type KeyState, unknownKey } from "../../support/leases/key-state.js";
import type { RecordedCall, Step } from "../../support/leases/recorded-call.js";

const offset = { from: 0, to: 0 };
const leaseMs = 20;

/** Short times and few leases, so that about as many histories are possible as are not. */
const time = fc.nat({ max: 40 });
const leaseId = fc.constantFrom("a", "b");
const lost = { status: "LeaseLost" } as const;
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constant("tryBegin" as const),
    leaseMs: fc.constant(leaseMs),
    result: fc.oneof(
      fc.record({ status: fc.constant("Acquired" as const), leaseId, expiresAt: fc.nat({ max: 60 }) }),
      fc.constant({ status: "Processed" } as const),
      fc.record({
        status: fc.constant("Busy" as const),
        expiresAt: fc.option(fc.integer({ min: leaseMs, max: 60 })),
      }),
    ),
  }),
  fc.record({
    kind: fc.constant("renew" as const),
    leaseId,
    leaseMs: fc.constant(leaseMs),
    result: fc.oneof(
      fc.record({ status: fc.constant("Renewed" as const), expiresAt: fc.nat({ max: 60 }) }),
      fc.constant(lost),
    ),
  }),
  fc.record({
    kind: fc.constant("finish" as const),
    leaseId,
    result: fc.constantFrom({ status: "Processed" } as const, lost),
  }),
  fc.record({
    kind: fc.constant("release" as const),
    leaseId,
    result: fc.constantFrom({ status: "Released" } as const, lost),
  }),
  fc.record({ kind: fc.constant("isProcessed" as const), result: fc.boolean() }),
);

/** A lease that is given ends `leaseMs` after a moment of the call, as every store's does. */
const call: fc.Arbitrary<RecordedCall> = fc
  .tuple(step, time, time, fc.nat({ max: 7 }))
  .map(([one, calledAt, lastsMs, dice]) => {
    const isPending = dice === 0 && one.kind !== "isProcessed";
    const { result, ...call } = one;
    const returnedAt = isPending ? Number.POSITIVE_INFINITY : calledAt + lastsMs;
    return {
      key: "k",
      calledAt,
      returnedAt,
      timeOfDay: { from: calledAt, to: returnedAt },
      step: (isPending ? call : withEnd(one, calledAt, lastsMs)) as Step,
    };
  });

function withEnd(one: Step, calledAt: number, lastsMs: number): Step {
  if (one.kind !== "tryBegin" && one.kind !== "renew") return one;
  if (one.result?.status !== "Acquired" && one.result?.status !== "Renewed") return one;
  const expiresAt = calledAt + (one.result.expiresAt % (lastsMs + 1)) + leaseMs;
  return { ...one, result: { ...one.result, expiresAt } } as Step;
}

/** Every order that the times allow, one by one, with every choice of those that never returned. */
function isExplained(state: KeyState, left: readonly RecordedCall[]): boolean {
  if (left.every(({ returnedAt }) => returnedAt === Number.POSITIVE_INFINITY)) return true;
  return left.some((one) => {
    const others = left.filter((other) => other !== one);
    if (others.some(({ returnedAt }) => returnedAt < one.calledAt)) return false;
    const after = applied(state, one.step, readingOf(one, offset));
    return after !== undefined && isExplained(after, others);
  });
}

describe("the search of the checker of leases", () => {
  it("finds an order exactly when trying all orders does", () => {
    const verdicts = { explained: 0, refused: 0 };
    fc.assert(
      fc.property(fc.array(call, { minLength: 1, maxLength: 6 }), (history) => {
        const expected = isExplained(unknownKey, history);
        if (history.length >= 4) verdicts[expected ? "explained" : "refused"]++;
        expect(checkKey("k", history, offset) === undefined).toBe(expected);
      }),
      { numRuns: 4_000 },
    );
    // otherwise it showed nothing
    expect(Math.min(verdicts.explained, verdicts.refused)).toBeGreaterThan(100);
  });
});
