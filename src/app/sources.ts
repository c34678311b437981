import { omitUndefined } from "../base/defined.js";
import type { Logger } from "../base/logger.js";
import type { Secret, Secrets } from "../base/secrets.js";
import type { SourcesFromJson } from "../config/environment.js";
import { resolveThrough, type SecretReference, type SecretResolver } from "../config/secret-reference.js";
import type { PlainResponse } from "../http/plain.js";
import { refusedResponse, resultLog } from "../webhooks/responses.js";
import type { WebhookReceiver } from "../webhooks/route.js";
import type { WebhookSource } from "../webhooks/sources.js";

export type SecretOrReference = Secret | SecretReference;

/** A webhook source whose secrets may also be references to a store of secrets. */
export interface AppSource extends Omit<WebhookSource, "secrets" | "verifyToken"> {
  readonly secrets?: SecretOrReference | readonly SecretOrReference[];
  readonly verifyToken?: SecretOrReference | readonly SecretOrReference[];
}

/** The sources of the definition and of the environment, which take precedence. References become functions that fetch. */
export function webhookSources(
  inDefinition: Readonly<Record<string, AppSource>>,
  fromJson: SourcesFromJson,
  resolve: SecretResolver,
): Readonly<Record<string, WebhookSource>> {
  const all = { ...inDefinition, ...(fromJson as unknown as Readonly<Record<string, AppSource>>) };
  return Object.fromEntries(Object.entries(all).map(([name, source]) => [name, toSource(source, resolve)]));
}

function toSource(source: AppSource, resolve: SecretResolver): WebhookSource {
  const { secrets, verifyToken, ...rest } = source;
  const fetched = { secrets: fetching(secrets, resolve), verifyToken: fetching(verifyToken, resolve) };
  return { ...rest, ...omitUndefined(fetched) };
}

/** A source with `tenantSecrets` has none of its own. */
const fetching = (secrets: AppSource["secrets"], resolve: SecretResolver): Secrets | undefined =>
  secrets && fetchedBy(secrets, resolve, resolve);

/** Any other value is left to the source's own checks. */
export const isReference = (secret: unknown): secret is SecretReference =>
  typeof secret === "object" && secret !== null && "from" in secret;

/** Tokens of a definition. References become functions that fetch. */
export const tokenSecrets = (
  tokens: SecretOrReference | readonly SecretOrReference[],
  resolve: SecretResolver,
): Secrets => fetchedBy(tokens, resolve, (reference) => resolveThrough(reference, resolve));

const fetchedBy = (
  secrets: SecretOrReference | readonly SecretOrReference[],
  { requirePackages }: SecretResolver,
  fetch: (reference: SecretReference) => Promise<string>,
): Secrets =>
  [secrets].flat().map((secret) => {
    if (!isReference(secret)) return secret;
    requirePackages?.(secret);
    return () => fetch(secret);
  });

/** The response of a host that could not make the app, with its log line. */
export function unavailableWebhooks(logger: Logger, reason: string): PlainResponse {
  logger.error("webhook", { outcome: "unavailable", status: 503, reason });
  return refusedResponse("unavailable");
}

/** Refuses every webhook of an app without sources, and says why. */
export function noWebhooks(logger: Logger): WebhookReceiver {
  const log = resultLog(logger, Date.now);
  const reason = "there are no sources: define some, or set ONCEBOX_WEBHOOKS";
  return async () => {
    log({ source: "unknown", outcome: "not found", status: 404, reason });
    return refusedResponse("not found");
  };
}
