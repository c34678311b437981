import { openByUrl } from "../config/database-url.js";
import { openDatabase } from "../config/open-database.js";
import { receivingOpeners } from "../config/receiving-openers.js";
import { InvalidOperationError } from "../errors.js";
import { createInbox } from "../inbox/inbox.js";
import { createInboxReceiver, type InboxReceiver } from "../inbox/receiver.js";
import { createOutbox, type Outbox } from "../outbox/outbox.js";
import type { ReceivingDatabase } from "../sql/dialect.js";
import { type AppContext, appContext, databaseOf, type Platform, storeOptionsOf } from "./context.js";
import type { AppDefinition, AppParts } from "./definition.js";

/**
 * The parts that the jobs of an app share. Each job is in a file of its own, so that the bundle of a function holds only
 * its own job.
 */
export interface OpenApp extends AppContext, AppParts {}

/** Opens no connection: the first call that needs one opens it. */
export async function openApp(definition: AppDefinition, platform: Platform): Promise<OpenApp> {
  const context = appContext(definition, platform);
  if (context.tenants !== undefined) return { ...context, ...noParts };
  const db = await databaseOf(context, platform, openDatabase);
  const options = storeOptionsOf(context);
  const inbox = createInbox(db, { ...definition.inbox, ...options });
  let outbox: Outbox | undefined;
  return {
    ...context,
    db,
    inbox,
    get outbox() {
      outbox ??= createOutbox(db, { ...definition.outbox, ...options });
      return outbox;
    },
  };
}

/** The parts of an app with many tenants that only an app with one database has: any use is an error that says so. */
const absent = <Part extends object>(name: string): Part =>
  new Proxy({} as Part, {
    get() {
      throw new InvalidOperationError(`An app with tenants has no ${name} of its own: each tenant has one.`);
    },
  });
const noParts: AppParts = { db: absent("db"), inbox: absent("inbox"), outbox: absent("outbox") };

/** An app that can only receive webhooks. */
interface ReceivingApp extends AppContext {
  /** Undefined for an app with many tenants: each tenant has a database. */
  readonly db: ReceivingDatabase | undefined;
  readonly inbox: InboxReceiver | undefined;
}

/** Opens no connection. A function with only this has a third less code to load at a cold start than one with `openApp`. */
export async function openReceivingApp(definition: AppDefinition, platform: Platform): Promise<ReceivingApp> {
  const context = appContext(definition, platform);
  if (context.tenants !== undefined) return { ...context, db: undefined, inbox: undefined };
  const db = await databaseOf(context, platform, (url, options) => openByUrl(receivingOpeners, url, options));
  const inbox = createInboxReceiver(db, { ...definition.inbox, ...storeOptionsOf(context) });
  return { ...context, db, inbox };
}
