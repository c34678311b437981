import { openByUrl } from "../config/database-url.js";
import { receivingOpeners } from "../config/receiving-openers.js";
import { createReceiver, type Receiver } from "../inbox/receiver.js";
import type { ReceivingDatabase } from "../sql/dialect.js";
import { type AppContext, appContext, databaseOf, type Platform, storeOptionsOf } from "./app-context.js";
import type { AppDefinition } from "./app-definition.js";

/** An app that can only receive webhooks. */
export interface ReceivingApp extends AppContext {
  /** Undefined for an app with many tenants: each tenant has a database. */
  readonly db: ReceivingDatabase | undefined;
  readonly inbox: Receiver | undefined;
}

/** Opens no connection. A function with only this has a third less code to load at a cold start than one with `openApp`. */
export async function openReceivingApp(definition: AppDefinition, platform: Platform): Promise<ReceivingApp> {
  const context = appContext(definition, platform);
  if (context.tenants !== undefined) return { ...context, db: undefined, inbox: undefined };
  const db = await databaseOf(context, platform, (url, options) => openByUrl(receivingOpeners, url, options));
  const inbox = createReceiver(db, { ...definition.inbox, ...storeOptionsOf(context) });
  return { ...context, db, inbox };
}
