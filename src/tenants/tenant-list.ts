import type { SecretResolver } from "../config/secret-reference.js";
import { tenantProblem } from "../config/tenant-settings.js";
import type { Logger } from "../queue/logger.js";
import { safeReason } from "../queue/safe-reason.js";
import { abortable } from "../sql/abortable.js";
import type { TenantDiscovery } from "./discovery.js";
import { type Tenant, tenantKey } from "./tenant.js";

export interface TenantListOptions {
  readonly discover: TenantDiscovery;
  readonly resolveSecret: SecretResolver;
  readonly refreshMs: number;
  /** The time that the source has to answer. */
  readonly discoverMs: number;
  readonly logger: Logger;
  /** Told of every new list. */
  readonly changed: (tenants: ReadonlyMap<string, Tenant>) => void;
  readonly now: () => number;
}

export interface TenantList {
  /** The list, asked for anew when it is old. */
  current(): Promise<ReadonlyMap<string, Tenant>>;
  /** What is known now, without waiting; an old list is asked for anew meanwhile. */
  known(): ReadonlyMap<string, Tenant> | undefined;
  /** Asks now. One that is under way may have looked too early, so it is waited for and another one follows. */
  refresh(): Promise<ReadonlyMap<string, Tenant>>;
}

/** After a failure the source is asked again sooner. */
const retryMs = 30_000;

/** By key. One flight at a time; a source that fails leaves the last list as it is. */
export function tenantList(options: TenantListOptions): TenantList {
  const { logger, now } = options;
  let tenants: ReadonlyMap<string, Tenant> | undefined;
  let refreshAt = Number.NEGATIVE_INFINITY;
  let flight: Promise<ReadonlyMap<string, Tenant>> | undefined;

  const discover = async (): Promise<ReadonlyMap<string, Tenant>> => {
    const signal = AbortSignal.timeout(options.discoverMs);
    const { resolveSecret } = options;
    const asked = Promise.resolve().then(() => options.discover({ signal, resolveSecret, logger }));
    return byKey(await abortable(asked, signal), logger);
  };

  const fly = async (): Promise<ReadonlyMap<string, Tenant>> => {
    try {
      tenants = await discover();
      refreshAt = now() + options.refreshMs;
      options.changed(tenants);
    } catch (error) {
      refreshAt = now() + Math.min(retryMs, options.refreshMs);
      if (tenants === undefined) throw error;
      logger.warn("tenants could not be refreshed; the last list is used", { reason: safeReason(error) });
    }
    return tenants;
  };

  const start = (): Promise<ReadonlyMap<string, Tenant>> => {
    flight ??= fly().finally(() => {
      flight = undefined;
    });
    return flight;
  };

  const isOld = (): boolean => now() >= refreshAt;

  return {
    async current() {
      return tenants === undefined || isOld() ? start() : tenants;
    },
    known() {
      if (tenants !== undefined && isOld()) start().catch(() => {}); // told by the flight itself
      return tenants;
    },
    async refresh() {
      await flight?.catch(() => {});
      return start();
    },
  };
}

/** One that is wrong, or there twice, is told and left out: the others are served. */
function byKey(found: readonly Tenant[], logger: Logger): ReadonlyMap<string, Tenant> {
  const tenants = new Map<string, Tenant>();
  for (const tenant of found) {
    const problem = tenantProblem(tenant);
    const key = problem === undefined ? tenantKey(tenant.id) : "";
    if (problem !== undefined) logger.warn("a tenant is left out", { tenant: idOf(tenant), reason: problem });
    else if (tenants.has(key)) logger.warn("a tenant is there twice; the first is used", { tenant: key });
    else tenants.set(key, { ...tenant, id: key });
  }
  return tenants;
}

const idOf = (tenant: unknown): string => String((tenant as Tenant | undefined)?.id ?? "").slice(0, 255);
