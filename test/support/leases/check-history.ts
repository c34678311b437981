import { checkKey, type Violation } from "./check-key.js";
import { clockOffset } from "./clock-offset.js";
import type { Range, RecordedCall } from "./recorded-call.js";

export interface HistoryReport {
  /** One line for each key that no order explains; empty when all are well. */
  readonly violations: readonly string[];
  /** How exactly the database's clock is known, in ms. */
  readonly clockBoundsMs: number;
}

const maxViolations = 20;
const maxStuck = 6;

/**
 * Whether the history of a store with leases is linearizable: each key by itself, since no call concerns two. `offset` is
 * that of the database's clock; by default it is found in the history.
 */
export function checkHistory(calls: readonly RecordedCall[], offset?: Range): HistoryReport {
  const found = offset === undefined ? clockOffset(calls) : { agrees: true as const, ...offset };
  if (!found.agrees) return { violations: [clocksDisagree(found.calls)], clockBoundsMs: Number.NaN };
  const violations = [
    ...repeatedLeases(calls),
    ...[...byKey(calls)].flatMap(([key, ofKey]) => checkKey(key, ofKey, found) ?? []).map(described),
  ];
  return { violations: violations.slice(0, maxViolations), clockBoundsMs: found.to - found.from };
}

function byKey(calls: readonly RecordedCall[]): ReadonlyMap<string, readonly RecordedCall[]> {
  const found = new Map<string, RecordedCall[]>();
  for (const call of calls) {
    const ofKey = found.get(call.key);
    if (ofKey === undefined) found.set(call.key, [call]);
    else ofKey.push(call);
  }
  return found;
}

/** A lease id gives rights, so no two leases may share one that a store made, not even of different keys. */
function repeatedLeases(calls: readonly RecordedCall[]): readonly string[] {
  const seen = new Set<string>();
  const repeated: string[] = [];
  for (const { key, step } of calls) {
    if (step.kind !== "tryBegin" || step.proposed !== undefined || step.result?.status !== "Acquired")
      continue;
    if (seen.has(step.result.leaseId)) repeated.push(`${key}: lease ${step.result.leaseId} was given twice.`);
    seen.add(step.result.leaseId);
  }
  return repeated;
}

const clocksDisagree = ([one, other]: readonly [RecordedCall, RecordedCall]): string =>
  `The ends of leases are not of one clock: no offset explains ${shown(one)} of key ${one.key} and ${shown(other)} of key ${other.key}.`;

function described({ key, state, stuck, explained, isUndecided }: Violation): string {
  const what = isUndecided ? "the search was given up" : "no order explains it";
  const open = stuck.slice(0, maxStuck).map(shown).join("; ");
  return `${key}: ${what}. After ${explained} calls it is ${JSON.stringify(state)}, and next is one of ${stuck.length}: ${open}`;
}

const shown = ({ step, calledAt, returnedAt }: RecordedCall): string =>
  `${JSON.stringify(step)} [${calledAt.toFixed(1)}, ${returnedAt.toFixed(1)}]`;
