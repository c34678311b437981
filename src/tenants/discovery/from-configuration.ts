import { safeReason } from "../../base/safe-reason.js";
import { severalAtOnce } from "../../base/several-at-once.js";
import type { SecretReference } from "../../config/secret-reference.js";
import { checkTenants, listOf } from "../../config/tenant-settings.js";
import { normalKey, type Tenant } from "../tenant.js";
import type { TenantDiscovery } from "./discovery.js";

/** Secrets that are fetched at once. */
const fetchesAtOnce = 20;

export interface ConfiguredTenant extends Omit<Tenant, "database"> {
  /** A URL, or a reference to a secret that holds the URL. */
  readonly database: string | SecretReference;
}

/**
 * Tenants that are listed in the code. Throws one error with everything that is wrong with them.
 *
 * @example
 * tenantsFromConfiguration([
 *   { id: "acme", database: "sqlite:acme.db" },
 *   { id: "globex", database: { from: "env", name: "GLOBEX_URL" } },
 * ]);
 */
export function tenantsFromConfiguration(tenants: readonly ConfiguredTenant[]): TenantDiscovery {
  const valid = checkTenants(tenants, "tenants", repeated(tenants)) as readonly ConfiguredTenant[];
  /** The last URL of each tenant: while its secret cannot be fetched, a tenant keeps its database. */
  const urls = new Map<string, string>();
  return async ({ resolveSecret, logger }) => {
    const failures: unknown[] = [];
    await severalAtOnce(valid, fetchesAtOnce, async ({ id, database }) => {
      if (typeof database === "string") return;
      try {
        urls.set(id, await resolveSecret(database));
      } catch (error) {
        failures.push(error);
        const reason = safeReason(error);
        logger.warn("the database of a tenant could not be read", { tenant: id, reason });
      }
    });
    // Not one secret could be fetched: the whole store of secrets is unavailable.
    if (valid.length > 0 && failures.length === valid.length) throw failures[0];
    return valid.flatMap(({ database, ...rest }): Tenant | [] => {
      const url = typeof database === "string" ? database : urls.get(rest.id);
      return url === undefined ? [] : { ...rest, database: url };
    });
  };
}

/** The problems of keys that are listed more than once. A key that is not a text is reported by `checkTenants`. */
function repeated(tenants: unknown): readonly string[] {
  const seen = new Set<string>();
  const twice = new Set<string>();
  for (const one of listOf(tenants)) {
    const { id } = Object(one) as Partial<Tenant>;
    if (typeof id !== "string") continue;
    const key = normalKey(id);
    if (seen.has(key)) twice.add(key);
    seen.add(key);
  }
  return [...twice].map((key) => `${JSON.stringify(key)} is listed more than once`);
}
