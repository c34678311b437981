import type { AppSource } from "../app/app-sources.js";
import { schemeNames, schemeOf } from "../webhooks/schemes/known-schemes.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { withOverrides } from "../webhooks/sources.js";
import { type CommandInput, UsageError } from "./command.js";
import { developmentSecrets, sharedDevelopmentSecret } from "./development-secrets.js";
import { exampleTopic } from "./example-topic.js";
import { definitionFor } from "./load-app.js";

export interface KnownSource {
  readonly name: string;
  readonly scheme: WebhookScheme;
  /** Undefined for a scheme that is not a source of the app. */
  readonly secrets: AppSource["secrets"] | undefined;
  /** The topic of an example event. */
  topic(): Promise<string>;
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
  if (source === undefined && !(schemeNames as readonly string[]).includes(name)) {
    const all = [...new Set([...Object.keys(sources), ...schemeNames])];
    throw new UsageError(`sign needs a source or a scheme: one of ${all.join(", ")}.`);
  }
  const refuse = (problem: string): never => {
    throw new UsageError(`${name}: ${problem}.`);
  };
  const scheme = withOverrides(schemeOf(source?.scheme ?? name, refuse), source ?? {}) as WebhookScheme;
  const { port, env } = environment;
  const localEnv = async (runPort: number): Promise<NodeJS.ProcessEnv> => {
    const secret = await sharedDevelopmentSecret(runPort);
    return secret === undefined ? env : { ...env, ...developmentSecrets(definition, environment, secret) };
  };
  const topic = () => exampleTopic(source?.scheme ?? name, definition, environment);
  return { name, scheme, secrets: source?.secrets, topic, port, localEnv };
}
