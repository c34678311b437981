import type { SecretReference } from "../config/secret-reference.js";
import { checkTenants } from "../config/tenant-settings.js";
import { InvalidArgumentError } from "../errors.js";
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
  return ({ resolveSecret }) =>
    Promise.all(
      checked.map(async ({ database, ...rest }) => ({
        ...rest,
        database: typeof database === "string" ? database : await resolveSecret(database),
      })),
    );
}

const repeated = (ids: readonly string[]): readonly string[] => [
  ...new Set(ids.filter((id, index) => ids.indexOf(id) !== index)),
];
