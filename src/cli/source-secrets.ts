import type { AppSource } from "../app/app-sources.js";
import { checkScheme } from "../webhooks/schemes/check-scheme.js";
import type { Delivery } from "../webhooks/schemes/delivery.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { fillFirst } from "../webhooks/schemes/template.js";
import type { TenantSecrets } from "../webhooks/schemes/tenant-verifier.js";
import { text, UsageError, type Values } from "./command.js";
import { secretStores } from "./secret-stores.js";

/** The secret of --secret or --secret-env. */
export function givenSecret(values: Values, env: NodeJS.ProcessEnv): string | undefined {
  const variable = text(values, "secret-env");
  if (variable === undefined) return text(values, "secret");
  if (!env[variable]) throw new UsageError(`The variable ${variable} is not set.`);
  return env[variable];
}

/** Returns the source's secrets, from wherever they are kept. */
export async function resolvedSecrets(
  secrets: AppSource["secrets"] | undefined,
  env: NodeJS.ProcessEnv,
): Promise<readonly string[]> {
  const resolve = secretStores(env);
  const found = await Promise.all(
    [secrets].flat().map(async (secret) => {
      if (typeof secret === "function") return secret();
      return typeof secret === "object" ? resolve(secret) : (secret ?? []);
    }),
  );
  return found.flat().filter((secret) => secret !== "");
}

/** Returns the secrets of the tenant that the delivery names, and none for an unknown one. */
export async function secretsOfTenant(
  scheme: WebhookScheme,
  tenantSecrets: TenantSecrets,
  delivery: Delivery,
): Promise<readonly string[]> {
  const tenant = fillFirst(checkScheme(scheme, []).tenant, delivery);
  return [(tenant === undefined ? undefined : await tenantSecrets(tenant)) ?? []].flat();
}
