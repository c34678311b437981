import { safeReason } from "../../base/safe-reason.js";
import { severalAtOnce } from "../../base/several-at-once.js";
import type { SecretReference } from "../../config/secret-reference.js";
import { checkTenants, listOf } from "../../config/tenant-settings.js";
import { normalKey, type Tenant } from "../tenant.js";
import type { TenantDiscovery } from "./discovery.js";

/** Secrets that are asked for at once. */
const readersAtOnce = 20;

export interface ConfiguredTenant extends Omit<Tenant, "database"> {
  /** A URL, or where the URL is kept. */
  readonly database: string | SecretReference;
}

/**
 * Tenants that are written down; everything that is wrong with them is said at once.
 *
 * @example
 * tenantsFromConfiguration([
 *   { id: "acme", database: "sqlite:acme.db" },
 *   { id: "globex", database: { from: "env", name: "GLOBEX_URL" } },
 * ]);
 */
export function tenantsFromConfiguration(tenants: readonly ConfiguredTenant[]): TenantDiscovery {
  const checked = checkTenants(tenants, "tenants", repeated(tenants)) as readonly ConfiguredTenant[];
  /** What was read last: a secret that is away for the moment leaves its tenant as it was. */
  const read = new Map<string, string>();
  return async ({ resolveSecret, logger }) => {
    const failures: unknown[] = [];
    await severalAtOnce(checked, readersAtOnce, async ({ id, database }) => {
      if (typeof database === "string") return;
      try {
        read.set(id, await resolveSecret(database));
      } catch (error) {
        failures.push(error);
        const reason = safeReason(error);
        logger.warn("the database of a tenant could not be read", { tenant: id, reason });
      }
    });
    // Nobody could be read: it is the store of secrets that is away.
    if (checked.length > 0 && failures.length === checked.length) throw failures[0];
    return checked.flatMap(({ database, ...rest }): Tenant | [] => {
      const url = typeof database === "string" ? database : read.get(rest.id);
      return url === undefined ? [] : { ...rest, database: url };
    });
  };
}

/** Who is there more than once. What is not even a key is told of otherwise. */
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
  return [...twice].map((key) => `${JSON.stringify(key)} is there more than once`);
}
