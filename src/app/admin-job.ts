import { type Admin, createAdmin } from "../admin/create-admin.js";
import { InvalidOperationError } from "../errors.js";
import type { AppAdmin } from "./definition.js";
import type { OpenApp } from "./open-app.js";
import { tokenSecrets } from "./sources.js";

/** Serves the app's diagnostics by HTTP. */
export function adminJob(app: OpenApp): Admin {
  const { definition, resolveSecret, logger, tenants } = app;
  const { tokens, ...settings } = adminOf(definition);
  return createAdmin({
    ...settings,
    ...(tenants === undefined
      ? { stores: { inbox: app.inbox, outbox: app.outbox } }
      : { tenants: { ...tenants.stores, isQuarantined: tenants.isQuarantined } }),
    tokens: tokenSecrets(tokens, resolveSecret),
    logger,
  });
}

function adminOf({ admin }: OpenApp["definition"]): AppAdmin {
  if (admin !== undefined) return admin;
  throw new InvalidOperationError(
    'This app has no diagnostics API. Add one: defineApp({ admin: { tokens: { from: "env", name: "ONCEBOX_ADMIN_TOKENS" } } }).',
  );
}
