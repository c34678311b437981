import { openDatabase } from "../config/open-database.js";
import { InvalidOperationError } from "../errors.js";
import { createInbox } from "../inbox/inbox.js";
import { createOutbox, type Outbox } from "../outbox/outbox.js";
import type { AppDefinition, AppParts } from "./app-definition.js";
import { type AppFrame, databaseOf, frameOf, type Platform, storeOptionsOf } from "./app-frame.js";

/**
 * What the jobs of an app share. Each job is in a file of its own, so that a function's bundle holds the one that it
 * does and not the others.
 */
export interface OpenApp extends AppFrame, AppParts {}

/** Opens no connection: the first call that needs one does. */
export async function openApp(definition: AppDefinition, platform: Platform): Promise<OpenApp> {
  const frame = frameOf(definition, platform);
  if (frame.tenants !== undefined) return { ...frame, ...noParts };
  const db = await databaseOf(frame, platform, openDatabase);
  const options = storeOptionsOf(frame);
  const inbox = createInbox(db, { ...definition.inbox, ...options });
  let outbox: Outbox | undefined;
  return {
    ...frame,
    db,
    inbox,
    get outbox() {
      outbox ??= createOutbox(db, { ...definition.outbox, ...options });
      return outbox;
    },
  };
}

/** What an app with many tenants has instead of one database: any use of it says so. */
const absent = <Part extends object>(name: string): Part =>
  new Proxy({} as Part, {
    get() {
      throw new InvalidOperationError(`An app with tenants has no ${name} of its own: each tenant has one.`);
    },
  });
const noParts: AppParts = { db: absent("db"), inbox: absent("inbox"), outbox: absent("outbox") };
