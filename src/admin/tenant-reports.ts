import { severalAtOnce } from "../base/several-at-once.js";
import { InvalidOperationError } from "../errors.js";
import type { CallOptions } from "../queue/work-store.js";
import type { AdminTenants } from "./queue-stores.js";
import { type StoreReport, storeReport } from "./store-report.js";

export interface TenantReport {
  readonly tenant: string;
  /** `paused`: the whole inbox or outbox is. `quarantined`: the dispatcher of this process leaves the tenant alone for a while, because a turn failed. */
  readonly state: "active" | "paused" | "unreachable" | "quarantined";
  readonly report: StoreReport;
}

export interface TenantPage {
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
  await severalAtOnce(ids, atOnce, async (tenant) => {
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
