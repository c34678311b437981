import type { AppDefinition } from "../app/app-definition.js";
import type { Environment } from "../config/environment.js";

/** Of the form that Stripe's and Standard Webhooks' secrets have; nobody is protected by it. */
const secret = `whsec_${Buffer.from("oncebox-local-development").toString("base64")}`;

/** Where a run gets such secrets, because nobody else can reach it. */
export const isThisMachine = (host: string): boolean =>
  host === "localhost" || host === "::1" || host === "[::1]" || host.startsWith("127.");

/** For a run on this machine alone: a secret for each variable that a source refers to and that is not set. */
export function developmentSecrets(
  { sources = {} }: AppDefinition,
  environment: Environment,
): Readonly<Record<string, string>> {
  const all = Object.values({ ...sources, ...environment.sources } as NonNullable<AppDefinition["sources"]>);
  const references = all.flatMap(({ secrets }) => [secrets].flat());
  const names = references.flatMap((entry) =>
    typeof entry === "object" && entry?.from === "env" && !environment.env[entry.name] ? [entry.name] : [],
  );
  return Object.fromEntries(names.map((name) => [name, secret]));
}
