import type { Logger } from "../base/logger.js";
import { isGuid } from "../base/uuid.js";
import type { SecretResolver } from "../config/secret-reference.js";
import { requireName } from "../queue/arguments.js";

/** A tenant, and where its tables are. */
export interface Tenant {
  /** The routing key, and the tenant's name in logs. */
  readonly id: string;
  /** A URL as `openDatabase` takes it. It may hold a password, and is never logged. */
  readonly database: string;
  readonly schema?: string | undefined;
  /** The name of the inbox's table, where it is not the default. */
  readonly inbox?: string | undefined;
  readonly outbox?: string | undefined;
}

/** A GUID is the same in upper and lower case; any other key is taken exactly as it is. */
export function tenantKey(key: string): string {
  requireName(key, "the tenant's key");
  return normalKey(key);
}

/** As `tenantKey`, for a text that need not be a valid key. */
export const normalKey = (key: string): string => (isGuid(key) ? key.toLowerCase() : key);

/** Tenants with the same address have the same tables. */
const storeAddress = ({ database, schema, inbox, outbox }: Tenant): string =>
  JSON.stringify([database, schema, inbox, outbox]);

export const isSameTenant = (a: Tenant, b: Tenant): boolean =>
  a.id === b.id && storeAddress(a) === storeAddress(b);

/** The id of one tenant for each store: the first in the alphabet, so that every instance chooses the same. */
export function distinctTenants(tenants: Iterable<Tenant>): readonly string[] {
  const first = new Map<string, string>();
  for (const tenant of tenants) {
    const address = storeAddress(tenant);
    const id = first.get(address);
    if (id === undefined || tenant.id < id) first.set(address, tenant.id);
  }
  return [...first.values()];
}

/** What a function that finds tenants gets. */
export interface DiscoveryContext {
  /** Aborts when `discoverMs` is over. */
  readonly signal: AbortSignal;
  /** Fetches a secret by its reference, where the platform can reach it. */
  readonly resolveSecret: SecretResolver;
  /** For problems of one tenant that do not concern the others. */
  readonly logger: Logger;
}

/** Returns the current tenants: one of the sources of this package, or a function of your own. */
export interface TenantDiscovery {
  (context: DiscoveryContext): Promise<readonly Tenant[]> | readonly Tenant[];
  /** The tenants come from records that others may write, so `allow` must say which databases they may name. */
  readonly needsAllow?: boolean;
}

export const fromRecords = (
  discover: (context: DiscoveryContext) => Promise<readonly Tenant[]>,
): TenantDiscovery => Object.assign(discover, { needsAllow: true });
