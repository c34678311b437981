import { mapLimit } from "../base/async.js";
import { safeReason } from "../base/logger.js";
import { InvalidOperationError } from "../errors.js";
import { type OperatedStores, withOperators } from "../operators/operators-of.js";
import { type CallOptions, deadState, type QueueKind } from "../queue/work-store.js";
import type { AdminStores, AdminTenants } from "./create-admin.js";

/** How one queue is. */
interface QueueReport {
  /** Messages that could be claimed now, and how long the oldest of them has been due. */
  readonly due: number;
  readonly oldestDueAgeMs: number | null;
  /** Messages that wait for the end of a pause: `due` is without them. */
  readonly pausedMessages: number;
  readonly dead: number;
  /** Whether the whole queue is paused. */
  readonly paused: boolean;
}

/** How the queues of one database are, or why that cannot be said. */
type StoreReport =
  | { readonly reachable: true; readonly inbox: QueueReport; readonly outbox: QueueReport }
  | { readonly reachable: false; readonly reason: string };

export async function storeReport(
  stores: () => Promise<AdminStores>,
  call: CallOptions,
): Promise<StoreReport> {
  try {
    const opened = withOperators(await stores());
    const [inbox, outbox] = await Promise.all([
      queueReport(opened, "inbox", call),
      queueReport(opened, "outbox", call),
    ]);
    return { reachable: true, inbox, outbox };
  } catch (error) {
    return { reachable: false, reason: safeReason(error) };
  }
}

async function queueReport(
  stores: OperatedStores,
  queue: QueueKind,
  call: CallOptions,
): Promise<QueueReport> {
  const store = stores[queue];
  const { due, oldestDueAgeMs, counts, phases } = await store.stats(call);
  const controls = await store.controls(call);
  return {
    due,
    oldestDueAgeMs,
    pausedMessages: phases.paused,
    dead: counts[deadState[queue]] ?? 0,
    paused: controls.some(({ scope, paused }) => scope === "queue" && paused),
  };
}

export interface TenantReport {
  readonly tenant: string;
  /** `paused`: the whole inbox or outbox is. `quarantined`: the dispatcher of this process leaves the tenant alone for a while, because a turn failed. */
  readonly state: "active" | "paused" | "unreachable" | "quarantined";
  readonly report: StoreReport;
}

interface TenantPage {
  readonly tenants: readonly TenantReport[];
  /** Pass it as `after` to get the next page; null on the last page. */
  readonly cursor: string | null;
}

/** Tenants that are read at once. */
const atOnce = 8;

/** A page of tenants in the order of their ids. One that cannot be read does not keep the others from being shown. */
export async function tenantReports(
  tenants: AdminTenants,
  {
    limit,
    after = "",
    signal,
  }: CallOptions & { readonly limit: number; readonly after?: string | undefined },
): Promise<TenantPage> {
  const left = [...(await tenants.list())].filter((id) => id > after).sort();
  const ids = left.slice(0, limit);
  const reports = new Map<string, TenantReport>();
  await mapLimit(ids, atOnce, async (tenant) => {
    const stores = async () => (await tenants.find(tenant)) ?? removed();
    const report = await storeReport(stores, { signal });
    reports.set(tenant, { tenant, state: stateOf(tenants, tenant, report), report });
  });
  const cursor = left.length > limit ? ids.at(-1)! : null;
  return { tenants: ids.map((id) => reports.get(id)!), cursor };
}

function stateOf(tenants: AdminTenants, id: string, report: StoreReport): TenantReport["state"] {
  if (tenants.isQuarantined?.(id)) return "quarantined";
  if (!report.reachable) return "unreachable";
  return report.inbox.paused || report.outbox.paused ? "paused" : "active";
}

const removed = (): never => {
  throw new InvalidOperationError("The tenant was removed meanwhile.");
};
