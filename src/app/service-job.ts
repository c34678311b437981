import { defined } from "../base/defined.js";
import { InvalidOperationError } from "../errors.js";
import { createInboxService, type InboxService } from "../service/http/create-inbox-service.js";
import type { LeasingInboxStore } from "../service/inbox-store.js";
import type { AppContext } from "./app-context.js";
import type { AppService } from "./app-service.js";
import { tokenSecrets } from "./token-secrets.js";

export interface ServiceApp extends AppContext {
  readonly store: LeasingInboxStore;
}

/** Serves the app's inbox store by HTTP. */
export function serviceJob({ definition, resolveSecret, logger, store }: ServiceApp): InboxService {
  const { store: _, retentionMs: __, tokens, ...settings } = serviceOf(definition);
  return createInboxService({
    ...settings,
    ...defined({
      tokens: tokens === undefined ? undefined : tokenSecrets(tokens, resolveSecret),
      metrics: definition.metrics,
    }),
    store,
    logger,
  });
}

export function serviceOf({ service }: AppContext["definition"]): AppService {
  if (service !== undefined) return service;
  throw new InvalidOperationError(
    'This app has no service. Add one: defineApp({ service: { tokens: { from: "env", name: "INBOX_SERVICE_TOKENS" } } }).',
  );
}
