import type { App } from "../app/create-app.js";
import { renderSchema } from "../sql/migrate.js";

/** Returns the schema as SQL. For an app with tenants each text appears once, with the ids of its tenants. */
export async function schemaOf(app: App): Promise<string> {
  if (app.tenants === undefined) return renderSchema(app.db.dialect, app.migrateOptions);
  const tenantsByText = new Map<string, string[]>();
  for (const store of await app.tenants.distinctStores()) {
    const { id, db, tables } = await app.tenants.stores(store);
    const given = Object.entries(tables).filter(([, name]) => name !== undefined);
    const text = renderSchema(db.dialect, Object.fromEntries(given));
    tenantsByText.set(text, [...(tenantsByText.get(text) ?? []), id]);
  }
  return [...tenantsByText].map(([text, ids]) => `-- tenants: ${JSON.stringify(ids)}\n${text}`).join("\n");
}
