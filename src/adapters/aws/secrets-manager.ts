import { memoisePromise } from "../../base/memoise-promise.js";
import {
  requirePackagesOf,
  type SecretReference,
  type SecretResolver,
  secretsFromEnvironment,
  withoutFinalNewline,
} from "../../config/secret-reference.js";
import { InvalidOperationError } from "../../errors.js";

type AwsReference = Extract<SecretReference, { from: "aws-secrets-manager" }>;

/** Fetches secrets from AWS Secrets Manager and from the environment. The client is loaded for the first secret of AWS. */
export function awsSecrets(env: NodeJS.ProcessEnv): SecretResolver {
  const fromEnvironment = secretsFromEnvironment(env);
  const fetchSecret = memoisePromise(async () => {
    const { GetSecretValueCommand, SecretsManagerClient } = await import("@aws-sdk/client-secrets-manager");
    const client = new SecretsManagerClient({ maxAttempts: 2 });
    return (id: string) =>
      client.send(new GetSecretValueCommand({ SecretId: id }), { abortSignal: AbortSignal.timeout(5_000) });
  });
  const resolve: SecretResolver = async (reference) => {
    if (reference.from !== "aws-secrets-manager") return fromEnvironment(reference);
    const { SecretString: text } = await (await fetchSecret())(reference.id);
    return textOf(reference, withoutFinalNewline(text ?? ""));
  };
  return Object.assign(resolve, { requirePackages: requirePackagesOf(env, "aws-secrets-manager") });
}

/** No error quotes the secret's value. */
function textOf({ id, key }: AwsReference, text: string): string {
  if (text === "") {
    throw new InvalidOperationError(`The secret ${id} in AWS Secrets Manager holds no text.`);
  }
  if (key === undefined) return text;
  const value = fieldOf(text, key);
  if (typeof value !== "string" || value === "") {
    throw new InvalidOperationError(
      `The secret ${id} in AWS Secrets Manager is not a JSON object with a text named "${key}".`,
    );
  }
  return withoutFinalNewline(value);
}

function fieldOf(text: string, key: string): unknown {
  try {
    const parsed: unknown = JSON.parse(text);
    return Object.hasOwn(Object(parsed), key) ? (parsed as Record<string, unknown>)[key] : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a secret exists that nobody has given a value yet. */
export async function isWithoutValue(id: string): Promise<boolean> {
  const { DescribeSecretCommand, client } = await secretsManager();
  const { VersionIdsToStages: versions } = await client.send(new DescribeSecretCommand({ SecretId: id }));
  return Object.keys(versions ?? {}).length === 0;
}

export async function putSecret(id: string, text: string): Promise<void> {
  const { PutSecretValueCommand, client } = await secretsManager();
  await client.send(new PutSecretValueCommand({ SecretId: id, SecretString: text }));
}

async function secretsManager() {
  const sdk = await import("@aws-sdk/client-secrets-manager");
  return { ...sdk, client: new sdk.SecretsManagerClient({ maxAttempts: 3 }) };
}
