import type { AppDefinition } from "../app/app-definition.js";
import type { AppSource } from "../app/app-sources.js";
import type { Environment } from "../config/environment.js";
import { schemeOf } from "../webhooks/load-presets.js";
import { overridableFields } from "../webhooks/schemes/read-scheme.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { withOverrides } from "../webhooks/sources.js";
import type { DevelopmentKeys } from "./development-keys.js";
import { type SchemedSource, unsetVariables } from "./development-secrets.js";

export interface DevSource extends SchemedSource {
  readonly source: string;
  /** The name of a preset whose fields the source does not override. */
  readonly knownScheme: string | undefined;
  /** The source has no secret of its own, and signs with those of this run. */
  readonly isDevelopment: boolean;
}

/** Returns the sources with their schemes, of which presets are loaded. */
export async function devSources(
  definition: AppDefinition,
  environment: Environment,
): Promise<readonly DevSource[]> {
  const sources = { ...definition.sources, ...environment.sources } as Readonly<Record<string, AppSource>>;
  return Promise.all(
    Object.entries(sources).map(async ([source, given]) => {
      const isOverridden = overridableFields.some((field) => given[field] !== undefined);
      return {
        source,
        scheme: withOverrides(await schemeOf(given.scheme), given) as WebhookScheme,
        secrets: given.secrets,
        verifyToken: given.verifyToken,
        knownScheme: typeof given.scheme === "string" && !isOverridden ? given.scheme : undefined,
        isDevelopment: unsetVariables([given.secrets].flat()[0], environment.env).length > 0,
      };
    }),
  );
}

/** The service's token, where it is that of this run and may be printed. */
export const devToken = (
  { service }: AppDefinition,
  { env }: Environment,
  { secret }: DevelopmentKeys,
): string | undefined => (unsetVariables([service?.tokens].flat()[0], env).length > 0 ? secret : undefined);
