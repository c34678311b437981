import type { AppDefinition } from "../app/app-definition.js";
import type { Environment } from "../config/environment.js";

/** Has the form of a secret of Stripe and of Standard Webhooks. It is public and protects nothing. */
const secret = `whsec_${Buffer.from("oncebox-local-development").toString("base64")}`;

/** Only a run that no other machine can reach gets development secrets. */
export const isThisMachine = (host: string): boolean =>
  host === "localhost" || host === "::1" || host === "[::1]" || host.startsWith("127.");

/** Returns a secret for each variable that a source or the service refers to and that is not set. */
export function developmentSecrets(
  { sources = {}, service }: AppDefinition,
  environment: Environment,
): Readonly<Record<string, string>> {
  const all = Object.values({ ...sources, ...environment.sources } as NonNullable<AppDefinition["sources"]>);
  const references = [...all.flatMap(({ secrets }) => [secrets].flat()), ...[service?.tokens ?? []].flat()];
  const names = references.flatMap((entry) =>
    typeof entry === "object" && entry?.from === "env" && !environment.env[entry.name] ? [entry.name] : [],
  );
  return Object.fromEntries(names.map((name) => [name, secret]));
}
