import type { AppDefinition } from "../app/definition.js";
import type { AppSource } from "../app/sources.js";
import type { Environment } from "../config/environment.js";
import { isPresetName, presetNames } from "../webhooks/preset-names.js";
import { checkScheme } from "../webhooks/schemes/check-scheme.js";
import { createDelivery } from "../webhooks/schemes/delivery.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { fillFirst } from "../webhooks/schemes/template.js";
import { schemeOf, withOverrides, withSchemes } from "../webhooks/sources.js";
import { type CommandInput, option, UsageError, type Values } from "./command.js";
import { definitionFor, secretStores } from "./load-app.js";
import { text, variableOf } from "./terminal.js";

/** Of the commands that take a source of the app or a provider. */
export const sourceOptions = {
  app: option("the app whose sources can be named, besides those of ONCEBOX_WEBHOOKS"),
  secret: option("the secret; a source has its own, and a local run one for each provider"),
  "secret-env": option("an environment variable with the secret, to keep it out of the shell's history"),
};

/** A source of the app, or a provider that is named like one. */
export interface KnownSource {
  readonly name: string;
  readonly scheme: WebhookScheme;
  /** Undefined for a provider that is not a source of the app. */
  readonly own: AppSource | undefined;
}

export interface KnownSources {
  readonly definition: AppDefinition;
  readonly environment: Environment;
  /** Those of the app and of ONCEBOX_WEBHOOKS. */
  readonly sources: Readonly<Record<string, AppSource>>;
}

export async function knownSources(input: CommandInput): Promise<KnownSources> {
  const { definition, environment } = await definitionFor(input);
  return { definition, environment, sources: sourcesOf(definition, environment) };
}

export function sourcesOf(
  { sources, webhooks }: AppDefinition,
  environment: Environment,
): Readonly<Record<string, AppSource>> {
  const all = withSchemes({ ...sources, ...environment.sources } as Readonly<Record<string, AppSource>>);
  if (webhooks?.sharedTopics !== true) return all;
  return Object.fromEntries(
    Object.entries(all).map(([name, source]) => [name, { sharedTopics: true, ...source }]),
  );
}

/** Finds the source of the app with this name, or else the provider. */
export async function findSource(
  sources: Readonly<Record<string, AppSource>>,
  name: string,
  command: string,
): Promise<KnownSource> {
  const own = Object.hasOwn(sources, name) ? sources[name] : undefined;
  if (own === undefined && !isPresetName(name)) {
    const all = [...new Set([...Object.keys(sources), ...presetNames])];
    const problem = name === "" ? "" : `There is no source or provider ${JSON.stringify(name)}. `;
    throw new UsageError(`${problem}${command} needs a source or a provider: one of ${all.join(", ")}.`);
  }
  const scheme = withOverrides(await schemeOf(own?.scheme ?? name), own ?? {}) as WebhookScheme;
  return { name, scheme, own };
}

/** The secret of --secret or --secret-env. */
export function givenSecret(values: Values, env: NodeJS.ProcessEnv): string | undefined {
  const variable = text(values, "secret-env");
  return variable === undefined ? text(values, "secret") : variableOf(env, variable);
}

/** Returns the source's secrets, from wherever they are kept. */
export async function resolvedSecrets(
  secrets: AppSource["secrets"],
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

/** Returns the secrets of the tenant that the request names, and none for an unknown one. Undefined where tenants have none of their own. */
export async function tenantSecretsFor(
  { scheme, own }: KnownSource,
  request: Parameters<typeof createDelivery>[0],
): Promise<readonly string[] | undefined> {
  if (own?.tenantSecrets === undefined) return undefined;
  const tenant = fillFirst(checkScheme(scheme, []).tenant, createDelivery(request));
  return [(tenant === undefined ? undefined : await own.tenantSecrets(tenant)) ?? []].flat();
}

export function absoluteUrl(values: Values): string | undefined {
  const url = text(values, "url");
  if (url !== undefined && !URL.canParse(url)) throw new UsageError("--url must be an absolute URL.");
  return url;
}
