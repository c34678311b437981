import { defined } from "../base/defined.js";
import { isSecretReference, type SecretReference, type SecretResolver } from "../config/secret-reference.js";
import { InvalidOperationError } from "../errors.js";
import { createInboxService, type InboxService } from "../service/http/create-inbox-service.js";
import type { LeasingInboxStore } from "../service/inbox-store.js";
import type { Secrets } from "../webhooks/schemes/secret-keys.js";
import type { AppContext } from "./app-context.js";
import type { AppService } from "./app-service.js";
import { isReference } from "./app-sources.js";

export interface ServiceApp extends AppContext {
  readonly store: LeasingInboxStore;
}

/** Serves the app's inbox store by HTTP. */
export function serviceJob({ definition, resolveSecret, logger, store }: ServiceApp): InboxService {
  const { store: _, retentionMs: __, tokens, ...settings } = serviceOf(definition);
  return createInboxService({
    ...settings,
    ...defined({
      tokens: tokens === undefined ? undefined : fetching(tokens, resolveSecret),
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

const fetching = (tokens: NonNullable<AppService["tokens"]>, resolve: SecretResolver): Secrets =>
  [tokens].flat().map((token) => (isReference(token) ? () => resolved(token, resolve) : token));

/** Templates put a reference into the environment, and not the token itself. */
async function resolved(reference: SecretReference, resolve: SecretResolver): Promise<string> {
  const text = await resolve(reference);
  const inner = reference.from === "env" ? referenceIn(text) : undefined;
  return inner === undefined ? text : resolve(inner);
}

function referenceIn(text: string): SecretReference | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isSecretReference(value) ? value : undefined;
  } catch {
    return undefined; // a token
  }
}
