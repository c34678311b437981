import { isGuid } from "../base/guid.js";
import { requireName } from "../queue/arguments.js";

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
