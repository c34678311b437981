import { randomUUID } from "node:crypto";
import { omitUndefined } from "../../../src/base/defined.js";
import { migrate } from "../../../src/sql/migrate.js";
import {
  createTenantStores,
  type TenantStoreProvider,
  type TenantStoresOptions,
} from "../../../src/tenants/connections/tenant-stores.js";
import type { Tenant } from "../../../src/tenants/tenant.js";
import type { TestDatabase } from "../harness.js";

/** Tenants in one database, each with tables of its own. */
export interface TestTenants {
  /** A tenant whose tables exist. With a second name it has the tables of that one. */
  tenant(id: string, tables?: string): Promise<Tenant>;
  stores(options: Omit<TenantStoresOptions, "open">): TenantStoreProvider;
  close(): Promise<void>;
}

/** No real addresses: every one of them opens the test's own database. */
const urls = { postgres: "postgres://tenants/", sqlserver: "mssql://tenants/", sqlite: "sqlite:tenants-" };

export function testTenants(database: TestDatabase): TestTenants {
  const { db, schema, supports } = database;
  const suffix = randomUUID().slice(0, 8);
  const made: TenantStoreProvider[] = [];
  const migrated = new Set<string>();
  return {
    async tenant(id, tables = id) {
      const name = `${tables.slice(0, 8).toLowerCase()}_${suffix}`;
      const queues = { inbox: `in_${name}`, outbox: `out_${name}` };
      if (!migrated.has(name)) await migrate(db, { ...omitUndefined({ schema }), ...queues });
      migrated.add(name);
      return { id, database: `${urls[db.dialect.name]}${name}`, ...omitUndefined({ schema }), ...queues };
    },
    stores(options) {
      const open = () => {
        const opened = database.reopen();
        // an only connection stays open: the test's own calls need it
        return supports.severalConnections ? opened : { ...opened, close: async () => {} };
      };
      const tenants = createTenantStores({ ...options, open });
      made.push(tenants);
      return tenants;
    },
    async close() {
      for (const tenants of made) await tenants.close();
    },
  };
}
