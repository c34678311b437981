import type { SecretReference } from "../config/secret-reference.js";
import { checkTenants } from "../config/tenant-settings.js";
import { InvalidArgumentError } from "../errors.js";
import { safeReason } from "../queue/safe-reason.js";
import type { TenantDiscovery } from "./discovery.js";
import { type Tenant, tenantKey } from "./tenant.js";

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
  const checked = checkTenants(tenants, "tenants") as readonly ConfiguredTenant[];
  const twice = repeated(checked.map(({ id }) => tenantKey(id)));
  if (twice.length > 0) throw new InvalidArgumentError(`tenants: ${twice.join(", ")}: there more than once.`);
  /** What was read last: a secret that is away for the moment leaves its tenant as it was. */
  const read = new Map<string, string>();
  return async ({ resolveSecret, logger }) => {
    const failures: unknown[] = [];
    const found = await Promise.all(
      checked.map(async ({ database, ...rest }): Promise<Tenant | undefined> => {
        if (typeof database === "string") return { ...rest, database };
        try {
          read.set(rest.id, await resolveSecret(database));
        } catch (error) {
          failures.push(error);
          const reason = safeReason(error);
          logger.warn("the database of a tenant could not be read", { tenant: rest.id, reason });
        }
        const url = read.get(rest.id);
        return url === undefined ? undefined : { ...rest, database: url };
      }),
    );
    // Nobody could be read: it is the store of secrets that is away.
    if (checked.length > 0 && failures.length === checked.length) throw failures[0];
    return found.filter((tenant) => tenant !== undefined);
  };
}

const repeated = (ids: readonly string[]): readonly string[] => [
  ...new Set(ids.filter((id, index) => ids.indexOf(id) !== index)),
];
