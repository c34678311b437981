import type { AppSource } from "../app/sources.js";
import { isPresetName, presetNames } from "../webhooks/preset-names.js";
import { checkScheme } from "../webhooks/schemes/check-scheme.js";
import type { Delivery } from "../webhooks/schemes/delivery.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { fillFirst } from "../webhooks/schemes/template.js";
import type { TenantSecrets } from "../webhooks/schemes/verifier.js";
import { schemeOf, withOverrides } from "../webhooks/sources.js";
import { type CommandInput, text, UsageError, type Values } from "./command.js";
import { type DevelopmentKeys, sharedDevelopmentKeys, unsetVariables } from "./development-keys.js";
import { exampleTopic } from "./example-event.js";
import { definitionFor, secretStores } from "./load-app.js";

export interface KnownSource {
  readonly name: string;
  readonly scheme: WebhookScheme;
  /** Undefined for a provider that is not a source of the app. */
  readonly secrets: AppSource["secrets"] | undefined;
  readonly tenantSecrets: AppSource["tenantSecrets"] | undefined;
  readonly toleranceMs: number | undefined;
  /** The other sources, for somebody who looks for a secret. */
  readonly others: readonly { readonly name: string; readonly secrets: AppSource["secrets"] }[];
  /** The topic of an example event. */
  topic(): Promise<string>;
  /** The port of the local run. */
  readonly port: number;
  /** The keys that the local run at this port has given to the source, because it has no secret of its own. */
  localKeys(port: number): Promise<DevelopmentKeys | undefined>;
}

/** Finds the source of the app or of ONCEBOX_WEBHOOKS with this name, or else the provider. */
export async function findSourceOrScheme(
  input: CommandInput,
  name = "",
  command = "sign",
): Promise<KnownSource> {
  const { definition, environment } = await definitionFor(input);
  const sources = { ...definition.sources, ...environment.sources } as Readonly<Record<string, AppSource>>;
  const source = Object.hasOwn(sources, name) ? sources[name] : undefined;
  if (source === undefined && !isPresetName(name)) {
    const all = [...new Set([...Object.keys(sources), ...presetNames])];
    throw new UsageError(`${command} needs a source or a provider: one of ${all.join(", ")}.`);
  }
  const scheme = withOverrides(await schemeOf(source?.scheme ?? name), source ?? {}) as WebhookScheme;
  const { port, env } = environment;
  const hasOwnSecret = source !== undefined && unsetVariables(source.secrets, env).length === 0;
  return {
    name,
    scheme,
    secrets: source?.secrets,
    tenantSecrets: source?.tenantSecrets,
    toleranceMs: source?.toleranceMs,
    others: Object.entries(sources)
      .filter(([other]) => other !== name)
      .map(([other, { secrets }]) => ({ name: other, secrets })),
    topic: () => exampleTopic(source?.scheme ?? name, definition, environment),
    port,
    localKeys: async (runPort) => (hasOwnSecret ? undefined : sharedDevelopmentKeys(runPort)),
  };
}

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
