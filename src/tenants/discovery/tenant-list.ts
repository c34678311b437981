import { abortAfter, singleFlight, sleep } from "../../base/async.js";
import { type Logger, safeReason } from "../../base/logger.js";
import type { AllowedDatabases } from "../../config/allowed-databases.js";
import type { SecretResolver } from "../../config/secret-reference.js";
import { tenantProblem } from "../../config/tenant-settings.js";
import { InvalidOperationError } from "../../errors.js";
import { type Tenant, type TenantDiscovery, tenantKey } from "../tenant.js";

export interface TenantListOptions {
  readonly discover: TenantDiscovery;
  readonly resolveSecret: SecretResolver;
  readonly refreshMs: number;
  /** The time that `discover` has to return the list. */
  readonly discoverMs: number;
  readonly logger: Logger;
  /** URLs are opened by the user's own function, which may know other kinds of URL. */
  readonly anyUrl: boolean;
  /** Which databases a tenant may name. */
  readonly allow: AllowedDatabases | undefined;
  /** Called with every new list. */
  readonly onChange: (tenants: Tenants) => void;
  readonly now: () => number;
}

/** By key. */
type Tenants = ReadonlyMap<string, Tenant>;

/** The time to the next refresh after a failure. It doubles with each failure in a row, because runs wait for a refresh. */
const retryMs = 30_000;
const unknownKeyMs = 1_000;

/** Runs one refresh at a time. When `discover` fails, the last list stays in use. */
export function tenantList(options: TenantListOptions) {
  const { logger, now } = options;
  let tenants: Tenants | undefined;
  let refreshAt = Number.NEGATIVE_INFINITY;
  let failures = 0;

  const refreshing = singleFlight(async (): Promise<Tenants> => {
    try {
      tenants = await discovered(options);
      refreshAt = now() + options.refreshMs;
      failures = 0;
      options.onChange(tenants);
    } catch (error) {
      refreshAt = now() + Math.min(retryMs * 2 ** failures++, options.refreshMs);
      if (tenants === undefined) throw error;
      logger.warn("tenants could not be refreshed; the last list is used", { reason: safeReason(error) });
    }
    return tenants;
  });

  const isOld = (): boolean => now() >= refreshAt;

  /** Refreshes now. A refresh that is already running may have read too early, so another one follows it. */
  const refresh = async (): Promise<Tenants> => {
    await refreshing.current()?.catch(() => {});
    return refreshing.run();
  };

  let unknownKeyAt = Number.NEGATIVE_INFINITY;
  const pausing = singleFlight(async () => {
    const ms = unknownKeyAt - now();
    if (ms > 0) await sleep(ms);
    unknownKeyAt = now() + unknownKeyMs;
  });

  return {
    refresh,
    /** The list, refreshed first when it is old. */
    current: async (): Promise<Tenants> => (tenants === undefined || isOld() ? refreshing.run() : tenants),
    /** The list as it is, without waiting; an old list is refreshed meanwhile. Undefined before the first list. */
    known(): Tenants | undefined {
      if (tenants !== undefined && isOld()) refreshing.run().catch(() => {}); // the refresh itself logs its failure
      return tenants;
    },
    /** Refreshes for an unknown key, at most once a second: many unknown keys may come one after the other. */
    async refreshForUnknown(): Promise<Tenants> {
      await pausing.run();
      return refresh();
    },
  };
}

async function discovered(options: TenantListOptions): Promise<Tenants> {
  const { discover, discoverMs, resolveSecret, logger } = options;
  const found: unknown = await abortAfter(
    discoverMs,
    (signal) => discover({ signal, resolveSecret, logger }),
    () =>
      new InvalidOperationError(`discover did not return the tenants within ${discoverMs} ms (discoverMs).`),
  );
  if (!Array.isArray(found))
    throw new InvalidOperationError("discover must return a list of tenants: [{ id, database }, …].");
  return byKey(found, options);
}

/** A tenant that is not valid, or is listed twice, is left out with a warning: the others are served. */
function byKey(
  found: readonly Tenant[],
  { logger, anyUrl, allow }: Pick<TenantListOptions, "logger" | "anyUrl" | "allow">,
): Tenants {
  const tenants = new Map<string, Tenant>();
  for (const tenant of found) {
    const problem = tenantProblem(tenant, { anyUrl, allow });
    const key = problem === undefined ? tenantKey(tenant.id) : "";
    if (problem !== undefined) logger.warn("a tenant is left out", { tenant: idOf(tenant), reason: problem });
    else if (tenants.has(key)) logger.warn("a tenant is listed twice; the first is used", { tenant: key });
    else tenants.set(key, { ...tenant, id: key });
  }
  return tenants;
}

const idOf = (tenant: unknown): string => String((tenant as Tenant | undefined)?.id ?? "").slice(0, 255);
