import type { AppDefinition } from "../app/app-definition.js";
import type { Environment } from "../config/environment.js";
import { schemeOf } from "../webhooks/load-presets.js";
import { overridableFields } from "../webhooks/schemes/check-scheme.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { withOverrides } from "../webhooks/sources.js";

export interface DevSource {
  readonly source: string;
  readonly scheme: WebhookScheme;
  /** The name of a known scheme whose fields the source does not override. */
  readonly knownScheme: string | undefined;
  readonly secret: string | undefined;
}

/** Returns the text of a secret that is the development secret `made`, and may be printed. */
function printable(secret: unknown, environment: Environment, made: string): string | undefined {
  const { from, name = "" } = Object(secret) as { from?: string; name?: string };
  const text = from === "env" ? environment.env[name] : undefined;
  return text === made ? text : undefined;
}

/** Returns the service's token where it may be printed. */
export const devToken = (
  definition: AppDefinition,
  environment: Environment,
  made: string,
): string | undefined => printable([definition.service?.tokens].flat()[0], environment, made);

/** Returns the sources, with the secret where it is a development secret and may be printed. */
export async function devSources(
  definition: AppDefinition,
  environment: Environment,
  made: string,
): Promise<readonly DevSource[]> {
  const sources = { ...definition.sources, ...environment.sources } as NonNullable<AppDefinition["sources"]>;
  const shown = Object.entries(sources).map(async ([source, given]) => {
    const [first] = [given.secrets].flat();
    const isOverridden = overridableFields.some((field) => given[field] !== undefined);
    return {
      source,
      scheme: withOverrides(await schemeOf(given.scheme), given) as WebhookScheme,
      knownScheme: typeof given.scheme === "string" && !isOverridden ? given.scheme : undefined,
      secret: printable(first, environment, made),
    };
  });
  return Promise.all(shown);
}
