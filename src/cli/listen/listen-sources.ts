import type { AppSource } from "../../app/app-sources.js";
import { schemeOf } from "../../webhooks/load-presets.js";
import { isPresetName, presetNames } from "../../webhooks/preset-names.js";
import type { WebhookScheme } from "../../webhooks/schemes/scheme.js";
import { withOverrides } from "../../webhooks/sources.js";
import { type CommandInput, UsageError } from "../command.js";
import { type DevelopmentKeys, developmentSecretOf, newDevelopmentKeys } from "../development-keys.js";
import { unsetVariables } from "../development-secrets.js";
import { definitionFor } from "../load-app.js";
import { givenSecret, resolvedSecrets } from "../source-secrets.js";

/** A source whose scheme is loaded and whose secrets are at hand. */
export interface ListenSource {
  readonly scheme: WebhookScheme;
  /** Empty with `tenantSecrets`. */
  readonly secrets: readonly string[];
  readonly tenantSecrets?: AppSource["tenantSecrets"] | undefined;
  readonly toleranceMs?: number | undefined;
}

export interface ListenSources {
  readonly sources: ReadonlyMap<string, ListenSource>;
  readonly keys: DevelopmentKeys;
  readonly port: number;
}

/** The sources and providers that are named, or all sources of the app, or else all providers. */
export async function listenSources(input: CommandInput): Promise<ListenSources> {
  const { definition, environment } = await definitionFor(input);
  const ofApp = { ...definition.sources, ...environment.sources } as Readonly<Record<string, AppSource>>;
  const names = namesFor(input.positionals, Object.keys(ofApp));
  const schemes = await Promise.all(names.map((name) => loaded(name, ofApp[name])));
  const keys = await newDevelopmentKeys(schemes);
  const given = givenSecret(input.values, input.terminal.env);
  const sources = await Promise.all(
    names.map(async (name, index) => {
      const scheme = schemes[index]!;
      const own = ofApp[name];
      const made = given ?? developmentSecretOf(scheme, keys);
      const isUnset = own === undefined || unsetVariables(own.secrets, environment.env).length > 0;
      const secrets = isUnset ? [made] : await resolvedSecrets(own.secrets, environment.env);
      return [
        name,
        { scheme, secrets, toleranceMs: own?.toleranceMs, tenantSecrets: own?.tenantSecrets },
      ] as const;
    }),
  );
  return { sources: new Map(sources), keys, port: environment.port };
}

function namesFor(given: readonly string[], ofApp: readonly string[]): readonly string[] {
  const unknown = given.find((name) => !ofApp.includes(name) && !isPresetName(name));
  if (unknown !== undefined) {
    const all = [...new Set([...ofApp, ...presetNames])].join(", ");
    throw new UsageError(
      `listen knows no source or provider ${JSON.stringify(unknown)}: name one of ${all}.`,
    );
  }
  if (given.length > 0) return [...new Set(given)];
  return ofApp.length > 0 ? ofApp : presetNames;
}

const loaded = async (name: string, source: AppSource | undefined): Promise<WebhookScheme> =>
  withOverrides(await schemeOf(source?.scheme ?? name), source ?? {}) as WebhookScheme;
