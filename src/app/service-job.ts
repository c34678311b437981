import { omitUndefined } from "../base/defined.js";
import { openDatabase } from "../config/database-url.js";
import { InvalidOperationError } from "../errors.js";
import { createInboxService, type InboxService } from "../inbox-store/http/inbox-service.js";
import type { LeasingInboxStore } from "../inbox-store/inbox-store.js";
import type { Database } from "../sql/dialect.js";
import type { AppDefinition, AppService } from "./definition.js";
import { type AppContext, appContext, databaseOf, type OpenApp, type Platform } from "./open-app.js";
import { serviceStore } from "./service-store.js";
import { tokenSecrets } from "./sources.js";

interface ServiceApp extends AppContext {
  readonly store: LeasingInboxStore;
}

/** Serves the app's inbox store by HTTP. */
export function serviceJob({ definition, resolveSecret, logger, store }: ServiceApp): InboxService {
  const { store: _, retentionMs: __, tokens, ...settings } = serviceOf(definition);
  return createInboxService({
    ...settings,
    ...omitUndefined({
      tokens: tokens === undefined ? undefined : tokenSecrets(tokens, resolveSecret),
      metrics: definition.metrics,
    }),
    store,
    logger,
  });
}

function serviceOf({ service }: AppContext["definition"]): AppService {
  if (service !== undefined) return service;
  throw new InvalidOperationError(
    'This app has no service. Add one: defineApp({ service: { tokens: { from: "env", name: "INBOX_SERVICE_TOKENS" } } }).',
  );
}

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

/** The service of a whole app in one process. */
export async function serveInbox(app: OpenApp) {
  const own = await serviceOf(app.definition).store?.(app);
  const store = own ?? serviceStore(app, app.db);
  return {
    service: serviceJob({ ...app, store }),
    /** Closes the store that the definition opened. The app's own database stays open. */
    close: async () => own?.close(),
  };
}
