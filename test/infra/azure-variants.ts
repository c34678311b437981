import { bicepPlan, type Value } from "./bicep-plan.js";

export const required = { applicationName: "orders", environmentName: "prod", location: "westeurope" };

/** The deployments that people make, by their parameters. */
export const variants: Readonly<Record<string, Readonly<Record<string, Value>>>> = {
  "as it is": {},
  "public addresses": { privateNetworking: false },
  "with service": { service: true },
  "with admin": { admin: true },
  "with messaging": { messaging: true, shopAddress: "https://shop.example/_rf/receive" },
  "a catalogue of tenants": { tenants: "catalogue" },
  "tenants in a vault": { tenants: "key-vault" },
  "a database of one's own": { database: "none", service: true, admin: true, messaging: true },
  PostgreSQL: { database: "postgres", service: true, admin: true, messaging: true, tenants: "catalogue" },
  "PostgreSQL with public addresses": { database: "postgres", privateNetworking: false },
  "PostgreSQL by PgBouncer": {
    database: "postgres",
    databaseSku: "Standard_D2ds_v5",
    databasePooler: true,
    service: true,
    admin: true,
    messaging: true,
  },
  "Service Bus": { serviceBus: true },
  "recovery of GitHub": { githubHooks: "acme/shop:123456789,acme:42" },
  "Front Door": { clientRequestsPerMinute: 3000 },
  everything: {
    service: true,
    admin: true,
    messaging: true,
    tenants: "key-vault",
    serviceBus: true,
    githubHooks: "acme:42",
    clientRequestsPerMinute: 3000,
    purgeProtection: true,
    updateStrategy: "RollingUpdate",
    alwaysReadyCount: 1,
  },
};

/** The resources of all of them, by `type@version`, as a deployment would send them. */
export async function plannedBodies(): Promise<ReadonlyMap<string, readonly Value[]>> {
  const bodies = new Map<string, Value[]>();
  for (const params of Object.values(variants)) {
    for (const { type, apiVersion, body } of (await bicepPlan({ ...required, ...params })).resources) {
      const name = `${type}@${apiVersion}`;
      bodies.set(name, [...(bodies.get(name) ?? []), body]);
    }
  }
  return bodies;
}
