import type { AppSource } from "../app/app-sources.js";
import { schemeOf } from "../webhooks/load-presets.js";
import { isPresetName, presetNames } from "../webhooks/preset-names.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { withOverrides } from "../webhooks/sources.js";
import { type CommandInput, UsageError } from "./command.js";
import { developmentSecrets, sharedDevelopmentSecret } from "./development-secrets.js";
import { definitionFor } from "./load-app.js";

export interface KnownSource {
  readonly name: string;
  readonly scheme: WebhookScheme;
  /** Undefined for a scheme that is not a source of the app. */
  readonly secrets: AppSource["secrets"] | undefined;
  /** The port of the local run. */
  readonly port: number;
  /** The environment with the development secret of the local run at this port. */
  localEnv(port: number): Promise<NodeJS.ProcessEnv>;
}

/** Finds the source of the app or of ONCEBOX_WEBHOOKS with this name, or else the known scheme. */
export async function findSourceOrScheme(input: CommandInput, name = ""): Promise<KnownSource> {
  const { definition, environment } = await definitionFor(input);
  const sources = { ...definition.sources, ...environment.sources } as Readonly<Record<string, AppSource>>;
  const source = Object.hasOwn(sources, name) ? sources[name] : undefined;
  if (source === undefined && !isPresetName(name)) {
    const all = [...new Set([...Object.keys(sources), ...presetNames])];
    throw new UsageError(`sign needs a source or a scheme: one of ${all.join(", ")}.`);
  }
  const given = await schemeOf(source?.scheme ?? name).catch((error: Error) => {
    throw new UsageError(`${name}: ${error.message}`);
  });
  const scheme = withOverrides(given, source ?? {}) as WebhookScheme;
  const { port, env } = environment;
  const localEnv = async (runPort: number): Promise<NodeJS.ProcessEnv> => {
    const secret = await sharedDevelopmentSecret(runPort);
    return secret === undefined ? env : { ...env, ...developmentSecrets(definition, environment, secret) };
  };
  return { name, scheme, secrets: source?.secrets, port, localEnv };
}
