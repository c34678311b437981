import { setTimeout as sleep } from "node:timers/promises";
import { abortable } from "../../base/abortable.js";
import type { Logger } from "../../base/logger.js";
import { safeReason } from "../../base/safe-reason.js";
import type { SecretResolver } from "../../config/secret-reference.js";
import { tenantProblem } from "../../config/tenant-settings.js";
import { InvalidOperationError } from "../../errors.js";
import { type Tenant, tenantKey } from "../tenant.js";
import type { TenantDiscovery } from "./discovery.js";

export interface TenantListOptions {
  readonly discover: TenantDiscovery;
  readonly resolveSecret: SecretResolver;
  readonly refreshMs: number;
  /** The time that the source has to answer. */
  readonly discoverMs: number;
  readonly logger: Logger;
  /** URLs are opened by the user's own function, which may know other kinds of them. */
  readonly anyUrl: boolean;
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
  /** The same for a key that nobody knows, of which there may be many, one after the other: once in a second. */
  seek(): Promise<ReadonlyMap<string, Tenant>>;
}

/** After a failure the source is asked again sooner; after many, ever less soon, because runs wait for it. */
const retryMs = 30_000;
const seekEveryMs = 1_000;

/** By key. One flight at a time; a source that fails leaves the last list as it is. */
export function tenantList(options: TenantListOptions): TenantList {
  const { logger, now } = options;
  let tenants: ReadonlyMap<string, Tenant> | undefined;
  let refreshAt = Number.NEGATIVE_INFINITY;
  let failures = 0;
  let flight: Promise<ReadonlyMap<string, Tenant>> | undefined;

  const discover = async (): Promise<ReadonlyMap<string, Tenant>> => {
    const signal = AbortSignal.timeout(options.discoverMs);
    const { resolveSecret } = options;
    const asked = Promise.resolve().then(() => options.discover({ signal, resolveSecret, logger }));
    const found: unknown = await abortable(asked, signal);
    if (!Array.isArray(found)) throw noList();
    return byKey(found, options);
  };

  const fly = async (): Promise<ReadonlyMap<string, Tenant>> => {
    try {
      tenants = await discover();
      refreshAt = now() + options.refreshMs;
      failures = 0;
      options.changed(tenants);
    } catch (error) {
      refreshAt = now() + Math.min(retryMs * 2 ** failures++, options.refreshMs);
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

  const refresh = async (): Promise<ReadonlyMap<string, Tenant>> => {
    await flight?.catch(() => {});
    return start();
  };

  let seekAt = Number.NEGATIVE_INFINITY;
  let seeking: Promise<void> | undefined;
  const pauseBeforeSeeking = async (): Promise<void> => {
    const ms = seekAt - now();
    if (ms > 0) await sleep(ms);
    seekAt = now() + seekEveryMs;
  };

  return {
    async current() {
      return tenants === undefined || isOld() ? start() : tenants;
    },
    known() {
      if (tenants !== undefined && isOld()) start().catch(() => {}); // told by the flight itself
      return tenants;
    },
    refresh,
    async seek() {
      seeking ??= pauseBeforeSeeking().finally(() => {
        seeking = undefined;
      });
      await seeking;
      return refresh();
    },
  };
}

const noList = () =>
  new InvalidOperationError("discover must answer a list of tenants: [{ id, database }, …].");

/** One that is wrong, or there twice, is told and left out: the others are served. */
function byKey(
  found: readonly Tenant[],
  { logger, anyUrl }: Pick<TenantListOptions, "logger" | "anyUrl">,
): ReadonlyMap<string, Tenant> {
  const tenants = new Map<string, Tenant>();
  for (const tenant of found) {
    const problem = tenantProblem(tenant, { anyUrl });
    const key = problem === undefined ? tenantKey(tenant.id) : "";
    if (problem !== undefined) logger.warn("a tenant is left out", { tenant: idOf(tenant), reason: problem });
    else if (tenants.has(key)) logger.warn("a tenant is there twice; the first is used", { tenant: key });
    else tenants.set(key, { ...tenant, id: key });
  }
  return tenants;
}

const idOf = (tenant: unknown): string => String((tenant as Tenant | undefined)?.id ?? "").slice(0, 255);
