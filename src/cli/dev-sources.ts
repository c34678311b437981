import type { AppDefinition } from "../app/app-definition.js";
import type { Environment } from "../config/environment.js";
import { overridableFields } from "../webhooks/schemes/check-scheme.js";
import { schemeOf } from "../webhooks/schemes/known-schemes.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { withOverrides } from "../webhooks/sources.js";
import { developmentSecrets } from "./development-secrets.js";

export interface DevSource {
  readonly source: string;
  readonly scheme: WebhookScheme;
  /** The name of a known scheme whose fields the source does not override. */
  readonly knownScheme: string | undefined;
  readonly secret: string | undefined;
}

/** Returns the sources, with the secret where it is a development secret and may be printed. */
export function devSources(definition: AppDefinition, environment: Environment): readonly DevSource[] {
  const sources = { ...definition.sources, ...environment.sources } as NonNullable<AppDefinition["sources"]>;
  const made = developmentSecrets(definition, { ...environment, env: {} });
  return Object.entries(sources).map(([source, given]) => {
    const [first] = [given.secrets].flat();
    const name = typeof first === "object" && first?.from === "env" ? first.name : undefined;
    const secret = name === undefined ? undefined : environment.env[name];
    const isOverridden = overridableFields.some((field) => given[field] !== undefined);
    return {
      source,
      scheme: withOverrides(
        schemeOf(given.scheme, () => {}),
        given,
      ) as WebhookScheme,
      knownScheme: typeof given.scheme === "string" && !isOverridden ? given.scheme : undefined,
      secret: name !== undefined && secret === made[name] ? secret : undefined,
    };
  });
}
