import type { App } from "../app/create-app.js";
import { renderSchema } from "../sql/migrate.js";

/** The schema as text; of an app with many tenants each text once, under the names of those it is for. */
export async function schemaOf(app: App): Promise<string> {
  if (app.tenants === undefined) return renderSchema(app.db.dialect, app.migrateOptions);
  const tenantsByText = new Map<string, string[]>();
  for (const place of await app.tenants.distinctStores()) {
    const { id, db, tables } = await app.tenants.stores(place);
    const given = Object.entries(tables).filter(([, name]) => name !== undefined);
    const text = renderSchema(db.dialect, Object.fromEntries(given));
    tenantsByText.set(text, [...(tenantsByText.get(text) ?? []), id]);
  }
  return [...tenantsByText].map(([text, ids]) => `-- tenants: ${JSON.stringify(ids)}\n${text}`).join("\n");
}
