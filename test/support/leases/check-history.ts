import { checkKey, type Violation } from "./check-key.js";
import { clockOffset } from "./clock-offset.js";
import type { Operation, Range } from "./operation.js";

export interface HistoryReport {
  /** One line for each key that no order explains; empty when all are well. */
  readonly violations: readonly string[];
  /** How exactly the database's clock is known, in ms. */
  readonly clockBoundsMs: number;
}

const mostViolations = 20;
const mostStuck = 6;

/**
 * Whether the history of a store with leases is linearizable: each key by itself, since no operation concerns two. `offset` is
 * that of the database's clock; by default it is found in the history.
 */
export function checkHistory(operations: readonly Operation[], offset?: Range): HistoryReport {
  const found = offset === undefined ? clockOffset(operations) : { agrees: true as const, ...offset };
  if (!found.agrees) return { violations: [clocksDisagree(found.operations)], clockBoundsMs: Number.NaN };
  const violations = [
    ...repeatedLeases(operations),
    ...[...byKey(operations)].flatMap(([key, ofKey]) => checkKey(key, ofKey, found) ?? []).map(described),
  ];
  return { violations: violations.slice(0, mostViolations), clockBoundsMs: found.to - found.from };
}

function byKey(operations: readonly Operation[]): ReadonlyMap<string, readonly Operation[]> {
  const found = new Map<string, Operation[]>();
  for (const operation of operations) {
    const ofKey = found.get(operation.key);
    if (ofKey === undefined) found.set(operation.key, [operation]);
    else ofKey.push(operation);
  }
  return found;
}

/** A lease id gives rights, so no two leases may share one that a store made, not even of different keys. */
function repeatedLeases(operations: readonly Operation[]): readonly string[] {
  const seen = new Set<string>();
  const repeated: string[] = [];
  for (const { key, step } of operations) {
    if (step.kind !== "tryBegin" || step.proposed !== undefined || step.result?.status !== "Acquired")
      continue;
    if (seen.has(step.result.leaseId)) repeated.push(`${key}: lease ${step.result.leaseId} was given twice.`);
    seen.add(step.result.leaseId);
  }
  return repeated;
}

const clocksDisagree = ([one, other]: readonly [Operation, Operation]): string =>
  `The ends of leases are not of one clock: no offset explains ${shown(one)} of key ${one.key} and ${shown(other)} of key ${other.key}.`;

function described({ key, state, stuck, explained, isUndecided }: Violation): string {
  const what = isUndecided ? "the search was given up" : "no order explains it";
  const open = stuck.slice(0, mostStuck).map(shown).join("; ");
  return `${key}: ${what}. After ${explained} operations it is ${JSON.stringify(state)}, and next is one of ${stuck.length}: ${open}`;
}

const shown = ({ step, calledAt, returnedAt }: Operation): string =>
  `${JSON.stringify(step)} [${calledAt.toFixed(1)}, ${returnedAt.toFixed(1)}]`;
