import type { TokenCredential } from "@azure/identity";
import { mapLimit, memoisePromise } from "../../base/concurrency.js";
import { omitUndefined } from "../../base/defined.js";
import { requirePackage } from "../../base/require-package.js";
import {
  requirePackages,
  type SecretReference,
  type SecretResolver,
  secretsFromEnvironment,
  withoutFinalNewline,
} from "../../config/secret-reference.js";
import { InvalidArgumentError, InvalidOperationError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import {
  type FetchTexts,
  type ListedSecret,
  type SecretFilter,
  tenantsOfSecrets,
} from "../../tenants/discovery/secrets.js";
import { fromRecords, type TenantDiscovery } from "../../tenants/tenant.js";

/** Fetches secrets from Azure Key Vault and from the environment. The client is loaded for the first secret of a vault. */
export function azureSecrets(env: NodeJS.ProcessEnv): SecretResolver {
  const fromEnvironment = secretsFromEnvironment(env);
  const fetchSecret = memoisePromise(async () => {
    const [{ SecretClient }, credential] = await Promise.all([
      import("@azure/keyvault-secrets"),
      azureCredential(),
    ]);
    return (vault: string, name: string) =>
      new SecretClient(vault, credential, { retryOptions: { maxRetries: 1 } }).getSecret(name, {
        abortSignal: AbortSignal.timeout(5_000),
      });
  });
  const resolve: SecretResolver = async (reference) => {
    if (reference.from !== "azure-key-vault") return fromEnvironment(reference);
    const found = await (await fetchSecret())(reference.vault, reference.name);
    const value = withoutFinalNewline(found.value ?? "");
    if (value === "") {
      throw new InvalidOperationError(`The secret ${reference.name} in ${reference.vault} is empty.`);
    }
    return value;
  };
  return Object.assign(resolve, {
    requirePackages: (reference: SecretReference) => requirePackages(reference, env, ["azure-key-vault"]),
  });
}

export interface KeyVaultTenants extends SecretFilter {
  /** `https://name.vault.azure.net` */
  readonly vault: string;
}

/** Calls at once: a vault has no call for many secrets. */
const fetchesAtOnce = 10;

/**
 * Tenants from Azure Key Vault: the secrets whose names begin with a prefix, or that have a tag. Each holds a database
 * URL, or JSON with it as `url`. Needs the role Key Vault Secrets User.
 *
 * @example
 * tenantsFromKeyVault({ vault: "https://contoso.vault.azure.net", prefix: "tenant-" });
 */
export function tenantsFromKeyVault({ vault, ...filter }: KeyVaultTenants): TenantDiscovery {
  refuseUnknown(filter, ["prefix", "tag", "idTag"], "tenantsFromKeyVault");
  if (!URL.canParse(vault)) {
    throw new InvalidArgumentError(
      "tenantsFromKeyVault: vault must be the vault's URL: https://name.vault.azure.net.",
    );
  }
  if (!filter.prefix && filter.tag === undefined) {
    throw new InvalidArgumentError(
      "tenantsFromKeyVault needs a prefix or a tag that tells tenants' secrets from others.",
    );
  }
  for (const name of ["@azure/keyvault-secrets", "@azure/identity"])
    requirePackage(name, "tenantsFromKeyVault");
  const load = memoisePromise(async () => {
    const [{ SecretClient }, credential] = await Promise.all([
      import("@azure/keyvault-secrets"),
      azureCredential(),
    ]);
    return new SecretClient(vault, credential, { retryOptions: { maxRetries: 2 } });
  });
  const tenantsOf = tenantsOfSecrets(filter);

  return fromRecords(async ({ signal: abortSignal, logger }) => {
    const client = await load();

    const list = async (): Promise<readonly ListedSecret[]> => {
      const listed: ListedSecret[] = [];
      for await (const { name, tags, updatedOn, enabled } of client.listPropertiesOfSecrets({
        abortSignal,
      })) {
        if (enabled === false) continue;
        listed.push({ name, tags: tags ?? {}, version: updatedOn?.toISOString() ?? "" });
      }
      return listed;
    };

    const fetchTexts: FetchTexts = async (names, { fetched, failed }) => {
      await mapLimit(names, fetchesAtOnce, async (name) => {
        try {
          const { value } = await client.getSecret(name, { abortSignal });
          if (!value) throw new InvalidOperationError(`The secret ${name} is empty.`);
          fetched(name, value);
        } catch (error) {
          // The time is over, or the vault throttles: the last list is better than an incomplete one.
          if (abortSignal.aborted || (error as { statusCode?: unknown }).statusCode === 429) throw error;
          failed(name, error);
        }
      });
    };

    return tenantsOf(await list(), fetchTexts, logger);
  });
}

/** The app's managed identity in Azure. On another machine, the developer's login. */
export async function azureCredential(clientId?: string): Promise<TokenCredential> {
  const { DefaultAzureCredential } = await import("@azure/identity");
  return new DefaultAzureCredential(omitUndefined({ managedIdentityClientId: clientId }));
}
