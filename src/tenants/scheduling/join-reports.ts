import type { DispatchResult } from "../../dispatch/dispatch-run.js";
import { sumOfResults } from "../../dispatch/result-sum.js";
import type { TenantDispatchReport } from "./tenant-dispatcher.js";

/** The report of two runs over the same tenants, one after the other. */
export function joinReports(first: TenantDispatchReport, second: TenantDispatchReport): TenantDispatchReport {
  const sum = (queue: "inbox" | "outbox"): DispatchResult | null => sumOfResults(first[queue], second[queue]);
  return {
    inbox: sum("inbox"),
    outbox: sum("outbox"),
    turns: first.turns + second.turns,
    failed: [...new Set([...first.failed, ...second.failed])],
    quarantined: second.quarantined,
    left: second.left,
  };
}
