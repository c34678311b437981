import type { DispatchResult } from "../../dispatch/dispatch-run.js";
import { sumOfResults } from "../../dispatch/result-sum.js";
import type { TenantDispatchReport } from "./tenant-dispatcher.js";

/** Adds up what many turns did. */
export interface ResultSum {
  add(result: DispatchResult): void;
  /** Null when there was no turn. */
  result(stopped: DispatchResult["stopped"]): DispatchResult | null;
}

export function resultSum(): ResultSum {
  let sum: DispatchResult | null = null;
  return {
    add(result) {
      sum = sumOfResults(sum, result);
    },
    result: (stopped) => (sum === null ? null : { ...sum, stopped }),
  };
}

/** Of two runs over the same tenants, one after the other. */
export function joinedReports(
  first: TenantDispatchReport,
  second: TenantDispatchReport,
): TenantDispatchReport {
  const joined = (queue: "inbox" | "outbox"): DispatchResult | null => {
    const sum = resultSum();
    for (const one of [first[queue], second[queue]]) if (one !== null) sum.add(one);
    return sum.result((second[queue] ?? first[queue])?.stopped ?? "drained");
  };
  return {
    inbox: joined("inbox"),
    outbox: joined("outbox"),
    turns: first.turns + second.turns,
    failed: [...new Set([...first.failed, ...second.failed])],
    quarantined: second.quarantined,
    left: second.left,
  };
}
