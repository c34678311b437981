import { openDatabase } from "../config/open-database.js";
import type { LeasingInboxStore } from "../service/inbox-store.js";
import type { Database } from "../sql/dialect.js";
import { appContext, databaseOf, type Platform } from "./app-context.js";
import type { AppDefinition } from "./app-definition.js";
import { type ServiceApp, serviceOf } from "./service-job.js";
import { serviceStore } from "./service-store.js";

/** An app that only serves its inbox. Opens no connection. */
export async function openServiceApp(
  definition: AppDefinition,
  platform: Platform,
): Promise<ServiceApp & { readonly db: Database | undefined }> {
  const context = appContext(definition, platform);
  const own: LeasingInboxStore | undefined = await serviceOf(definition).store?.(context);
  if (own !== undefined) return { ...context, db: undefined, store: own };
  const db = await databaseOf(context, platform, openDatabase);
  return { ...context, db, store: serviceStore(context, db) };
}
