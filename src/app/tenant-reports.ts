import type { FanOutReport } from "../tenants/fan-out/fan-out-dispatcher.js";
import type { TenantMaintenanceReport } from "../tenants/scheduling/maintain-tenants.js";
import type { DispatchReport } from "./dispatch-all.js";
import type { MaintenanceReport } from "./maintenance-jobs.js";

export function toDispatchReport(report: FanOutReport): DispatchReport {
  const { inbox, outbox, turns, failed, quarantined, left, tenantBatchesSent } = report;
  const tenants = {
    turns,
    tenantBatchesSent,
    failed: failed.length,
    quarantined: quarantined.length,
    left: left.length,
  };
  return { inbox, outbox, more: left.length > 0, tenants };
}

export function toMaintenanceReport({ sums, left }: TenantMaintenanceReport): MaintenanceReport {
  const more = left.length > 0;
  return { inbox: { ...sums.inbox, more }, outbox: { ...sums.outbox, more } };
}

/** The report of several tenant batches, of which at most one is for dispatching. */
export function mergedReports(first: DispatchReport, second: DispatchReport): DispatchReport {
  const [a, b] = [first.tenants!, second.tenants!];
  return {
    inbox: first.inbox ?? second.inbox,
    outbox: first.outbox ?? second.outbox,
    more: first.more || second.more,
    tenants: {
      turns: a.turns + b.turns,
      tenantBatchesSent: a.tenantBatchesSent + b.tenantBatchesSent,
      failed: a.failed + b.failed,
      quarantined: a.quarantined + b.quarantined,
      left: a.left + b.left,
    },
  };
}
