import type { App } from "../app/create-app.js";
import { defined } from "../base/defined.js";
import type { Database } from "../sql/dialect.js";
import { type MigrateOptions, schemaBatches } from "../sql/migrate.js";
import { pendingBatches } from "./pending-schema.js";

export type SchemaPart = "pending" | "all";

/** Returns SQL for a DBA. For an app with tenants each text appears once, with the ids of its tenants. */
export async function schemaOf(app: App, part: SchemaPart): Promise<string> {
  if (app.tenants === undefined) return render(app.db, app.migrateOptions, part);
  const tenantsByText = new Map<string, string[]>();
  for (const store of await app.tenants.distinctStores()) {
    const { id, db, tables } = await app.tenants.stores(store);
    const text = await render(db, defined(tables), part);
    if (text !== "") tenantsByText.set(text, [...(tenantsByText.get(text) ?? []), id]);
  }
  return [...tenantsByText].map(([text, ids]) => `-- tenants: ${JSON.stringify(ids)}\n${text}`).join("\n");
}

async function render(db: Database, options: MigrateOptions, part: SchemaPart): Promise<string> {
  const batches = part === "all" ? schemaBatches(db.dialect, options) : await pendingBatches(db, options);
  return batches.map((batch) => `${batch}${db.dialect.batchSeparator}`).join("\n");
}
