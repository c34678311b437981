import { type Facts, factsOf } from "./facts.js";
import { type Fate, fateOf, isFrozenStart } from "./lease-time.js";
import type { SoakRecord, SoakRun } from "./records.js";
import * as rules from "./rules.js";

export interface SoakReport {
  /** Calls of the store by the processes. */
  readonly operations: number;
  readonly handlings: number;
  /** Of handlings that succeeded, without the transactional ones. */
  readonly fates: Readonly<Record<Fate, number>>;
  /** Settlements that took longer than the lease, and still found the message to be the process's own. */
  readonly slowSettlements: number;
  /** Handlers that started in a process that was frozen just before their first line. */
  readonly frozenStarts: number;
  /** By rule. */
  readonly violations: Readonly<Record<string, readonly string[]>>;
}

/** Holds the records of all processes, and the database at the end, against every rule. */
export function checkSoak(run: SoakRun): SoakReport {
  const facts = factsOf(run);
  const broken = Object.entries(rules).map(([name, rule]) => [name, rule(facts)] as const);
  return {
    operations: run.processes.flatMap(({ records }) => records.filter(({ kind }) => isCall(kind))).length,
    handlings: facts.handlings.length,
    fates: fatesOf(facts),
    slowSettlements: slowSettlements(
      run.processes.flatMap(({ records }) => records),
      run.leaseMs,
    ),
    frozenStarts: facts.handlings.filter(isFrozenStart).length,
    violations: Object.fromEntries(broken.filter(([, violations]) => violations.length > 0)),
  };
}

const isCall = (kind: string): boolean => ["claim", "renew", "settle", "failed"].includes(kind);

function fatesOf(facts: Facts): Record<Fate, number> {
  const fates: Record<Fate, number> = { acked: 0, killed: 0, stopped: 0, unexplained: 0 };
  for (const handling of facts.handlings) {
    const fate = fateOf(facts, handling);
    if (fate !== undefined) fates[fate]++;
  }
  return fates;
}

export const slowSettlements = (records: readonly SoakRecord[], leaseMs: number): number =>
  records.filter(
    (record) => record.kind === "settle" && record.at - record.sentAt > leaseMs && record.changed.length > 0,
  ).length;
