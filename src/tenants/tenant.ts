import { isGuid } from "../base/guid.js";
import { requireName } from "../queue/arguments.js";

/** Who it is, and where its tables are. */
export interface Tenant {
  /** The routing key, and what the tenant is called in logs. */
  readonly id: string;
  /** A URL as `openDatabase` takes it. It may hold a password, and is never logged. */
  readonly database: string;
  readonly schema?: string | undefined;
  /** The inbox's table, where it is not the usual one. */
  readonly inbox?: string | undefined;
  readonly outbox?: string | undefined;
}

/** A GUID is the same in any case; any other key is taken exactly as it is. */
export function tenantKey(key: string): string {
  requireName(key, "the tenant's key");
  return normalKey(key);
}

/** The same of what need not be a key at all. */
export const normalKey = (key: string): string => (isGuid(key) ? key.toLowerCase() : key);

/** Tenants of one place have the same tables, which are polled once. */
export const storeAddress = ({ database, schema, inbox, outbox }: Tenant): string =>
  JSON.stringify([database, schema, inbox, outbox]);

export const isSameTenant = (a: Tenant, b: Tenant): boolean =>
  a.id === b.id && storeAddress(a) === storeAddress(b);
