import type { Filter, SecretListEntry } from "@aws-sdk/client-secrets-manager";
import { mapLimit, memoisePromise } from "../../base/async.js";
import { requirePackage } from "../../base/require-package.js";
import {
  requirePackages,
  type SecretReference,
  type SecretResolver,
  secretsFromEnvironment,
  withoutFinalNewline,
} from "../../config/secret-reference.js";
import { InvalidOperationError } from "../../errors.js";
import { type ListedSecret, type SecretFilter, tenantsFromSecrets } from "../../tenants/discovery/secrets.js";
import type { TenantDiscovery } from "../../tenants/tenant.js";

type AwsReference = Extract<SecretReference, { from: "aws-secrets-manager" }>;

/** Fetches secrets from AWS Secrets Manager and from the environment. The client is loaded for the first secret of AWS. */
export function awsSecrets(env: NodeJS.ProcessEnv): SecretResolver {
  const fromEnvironment = secretsFromEnvironment(env);
  const load = memoisePromise(() => secretsManager(2));
  const resolve: SecretResolver = async (reference) => {
    if (reference.from !== "aws-secrets-manager") return fromEnvironment(reference);
    const { GetSecretValueCommand, client } = await load();
    const { SecretString: text } = await client.send(new GetSecretValueCommand({ SecretId: reference.id }), {
      abortSignal: AbortSignal.timeout(5_000),
    });
    return textOf(reference, withoutFinalNewline(text ?? ""));
  };
  return Object.assign(resolve, {
    requirePackages: (reference: SecretReference) => requirePackages(reference, env, ["aws-secrets-manager"]),
  });
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

async function secretsManager(maxAttempts = 3) {
  const sdk = await import("@aws-sdk/client-secrets-manager");
  return { ...sdk, client: new sdk.SecretsManagerClient({ maxAttempts }) };
}

/** The most secrets that one call returns. */
const batchSize = 20;
/** Calls at the same time. */
const fetchesAtOnce = 4;

/**
 * Tenants from AWS Secrets Manager: the secrets whose names begin with a prefix, or that have a tag. Each holds a
 * database URL, or the JSON that AWS writes for a database. Needs `secretsmanager:ListSecrets`, `BatchGetSecretValue` and
 * `GetSecretValue`.
 *
 * @example
 * tenantsFromSecretsManager({ prefix: "tenants/" }); // "tenants/acme" is the tenant "acme"
 */
export function tenantsFromSecretsManager(filter: SecretFilter): TenantDiscovery {
  requirePackage("@aws-sdk/client-secrets-manager", "tenantsFromSecretsManager");
  const load = memoisePromise(() => secretsManager());
  return tenantsFromSecrets("tenantsFromSecretsManager", filter, async (abortSignal) => {
    const { BatchGetSecretValueCommand, ListSecretsCommand, client } = await load();
    return {
      async list() {
        const listed: ListedSecret[] = [];
        let next: string | undefined;
        do {
          const command = new ListSecretsCommand({
            Filters: filtersOf(filter),
            MaxResults: 100,
            NextToken: next,
          });
          const page = await client.send(command, { abortSignal });
          listed.push(...(page.SecretList ?? []).map(toListed));
          next = page.NextToken;
        } while (next !== undefined);
        return listed;
      },

      async fetchTexts(names, { fetched, failed }) {
        const batches = Array.from({ length: Math.ceil(names.length / batchSize) }, (_, index) =>
          names.slice(index * batchSize, (index + 1) * batchSize),
        );
        await mapLimit(batches, fetchesAtOnce, async (ids) => {
          const command = new BatchGetSecretValueCommand({ SecretIdList: ids });
          const { SecretValues: values, Errors: errors } = await client.send(command, { abortSignal });
          for (const { Name: name, SecretString: text } of values ?? []) {
            if (text !== undefined) fetched(name!, text);
            else failed(name!, new InvalidOperationError(`The secret ${name} holds no text.`));
          }
          for (const { SecretId: name, ErrorCode: code } of errors ?? []) failed(name!, { name: code });
        });
      },
    };
  });
}

function filtersOf({ prefix, tag }: SecretFilter): Filter[] {
  return [
    ...(prefix ? [{ Key: "name" as const, Values: [prefix] }] : []),
    ...(tag === undefined ? [] : [{ Key: "tag-key" as const, Values: [tag.key] }]),
    ...(tag?.value === undefined ? [] : [{ Key: "tag-value" as const, Values: [tag.value] }]),
  ];
}

const toListed = ({ Name: name, Tags: tags, LastChangedDate: changed }: SecretListEntry): ListedSecret => ({
  name: name!,
  tags: Object.fromEntries((tags ?? []).map(({ Key: key, Value: value }) => [key!, value ?? ""])),
  version: changed?.toISOString() ?? "",
});
