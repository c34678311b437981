import { InvalidArgumentError } from "../errors.js";
import { isSecretReference, type SecretReference } from "./secret-reference.js";

type SecretFromJson = string | SecretReference;
type SecretsFromJson = SecretFromJson | readonly SecretFromJson[];

/** Webhook sources by name. The fields of a scheme are checked where sources are resolved. */
export type SourcesFromJson = Readonly<
  Record<
    string,
    {
      readonly scheme: string | object;
      readonly secrets: SecretsFromJson;
      readonly verifyToken?: SecretsFromJson;
    }
  >
>;

/** Throws one error with all problems. Written by hand: with zod every function would be 22 KB larger. */
export function sourcesFromJson(value: unknown, what: string): SourcesFromJson {
  const problems = isObject(value)
    ? Object.entries(value).flatMap(([name, source]) =>
        problemsOf(source).map((problem) => `${name}${problem}`),
      )
    : ["must be an object with a source for each name"];
  if (problems.length > 0) throw new InvalidArgumentError(`${what}: ${problems.join("; ")}.`);
  return value as SourcesFromJson;
}

function problemsOf(source: unknown): readonly string[] {
  if (!isObject(source)) return [": must be an object"];
  const { scheme, secrets, verifyToken } = source;
  const isScheme = typeof scheme === "string" || isObject(scheme);
  const areSecrets = (given: unknown): boolean =>
    Array.isArray(given) ? given.length > 0 && given.every(isSecret) : isSecret(given);
  return [
    ...(isScheme ? [] : [".scheme: must be the name of a scheme, or a scheme itself"]),
    ...(areSecrets(secrets) ? [] : [`.secrets: ${secretsForm}`]),
    ...(verifyToken === undefined || areSecrets(verifyToken) ? [] : [`.verifyToken: ${secretsForm}`]),
  ];
}

const secretsForm = 'must be a secret, a reference to one like {"from": "env", "name": …}, or a list of them';

const isSecret = (value: unknown): boolean =>
  (typeof value === "string" && value !== "") || isSecretReference(value);

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
