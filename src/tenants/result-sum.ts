import type { DispatchResult } from "../queue/dispatch-run.js";
import type { TenantDispatchReport } from "./tenant-dispatcher.js";

/** Adds up what many turns did. */
export interface ResultSum {
  add(result: DispatchResult): void;
  /** Null when there was no turn. */
  result(stopped: DispatchResult["stopped"]): DispatchResult | null;
}

export function resultSum(): ResultSum {
  let sum: Omit<DispatchResult, "stopped"> | undefined;
  return {
    add({ stopped: _, ...counts }) {
      if (sum === undefined) {
        sum = counts;
        return;
      }
      const before = sum as unknown as Record<string, number>;
      sum = Object.fromEntries(
        Object.entries(counts).map(([name, value]) => [name, (before[name] ?? 0) + value]),
      ) as unknown as typeof counts;
    },
    result: (stopped) => (sum === undefined ? null : { ...sum, stopped }),
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
    setAside: second.setAside,
    left: second.left,
  };
}
