/** Lists tenants of a vault twice: in a process of its own, because trust in a certificate is given at its start. */
import { tenantsFromKeyVault } from "../../../src/adapters/azure/key-vault.js";
import { createTenantStores } from "../../../src/app/tenants.js";
import type { LogFields, Logger } from "../../../src/base/logger.js";

const [vault, filter] = process.argv.slice(2) as [string, string];
const warned: LogFields[] = [];
const warn = (_: string, fields: LogFields) => void warned.push(fields);
const logger: Logger = { debug: () => {}, info: () => {}, warn, error: warn };
const stores = createTenantStores({
  discover: tenantsFromKeyVault({ vault, ...JSON.parse(filter) }),
  allow: { kinds: ["sqlite", "postgres", "sqlserver"], folders: ["."], hosts: ["db.example"] },
  logger,
});

let flights = 1;
while (!(await stores.list().catch(() => undefined)) && flights < 5) flights++;

const databases: Record<string, string> = {};
for (const id of await stores.list()) databases[id] = (await stores.stores(id)).db.id;
await fetch(`${vault}/between`, { headers: { authorization: "Bearer none" } });
await stores.refresh();
console.log(JSON.stringify({ flights, databases, again: await stores.list(), warned }));
await stores.close();
