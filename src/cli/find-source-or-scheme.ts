import type { AppSource } from "../app/app-sources.js";
import { schemeOf } from "../webhooks/load-presets.js";
import { isPresetName, presetNames } from "../webhooks/preset-names.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { withOverrides } from "../webhooks/sources.js";
import { type CommandInput, UsageError } from "./command.js";
import type { DevelopmentKeys } from "./development-keys.js";
import { sharedDevelopmentKeys, unsetVariables } from "./development-secrets.js";
import { exampleTopic } from "./example-topic.js";
import { definitionFor } from "./load-app.js";

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
