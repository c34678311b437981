import type { TokenCredential } from "@azure/identity";
import type { SecretClient } from "@azure/keyvault-secrets";
import { mapLimit, memoisePromise } from "../../base/async.js";
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
import { type ListedSecret, type SecretFilter, tenantsFromSecrets } from "../../tenants/discovery/secrets.js";
import type { TenantDiscovery } from "../../tenants/tenant.js";

/** Fetches secrets from Azure Key Vault and from the environment. The client is loaded for the first secret of a vault. */
export function azureSecrets(env: NodeJS.ProcessEnv): SecretResolver {
  const fromEnvironment = secretsFromEnvironment(env);
  const load = memoisePromise(() => keyVault(1));
  const resolve: SecretResolver = async (reference) => {
    if (reference.from !== "azure-key-vault") return fromEnvironment(reference);
    const client = (await load())(reference.vault);
    const found = await client.getSecret(reference.name, { abortSignal: AbortSignal.timeout(5_000) });
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

/** Makes the client of a vault. */
async function keyVault(maxRetries: number): Promise<(vault: string) => SecretClient> {
  const [sdk, credential] = await Promise.all([import("@azure/keyvault-secrets"), azureCredential()]);
  return (vault) => new sdk.SecretClient(vault, credential, { retryOptions: { maxRetries } });
}

/** Which secrets of a vault name tenants. */
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
  if (!URL.canParse(vault)) {
    throw new InvalidArgumentError(
      "tenantsFromKeyVault: vault must be the vault's URL: https://name.vault.azure.net.",
    );
  }
  for (const name of ["@azure/keyvault-secrets", "@azure/identity"])
    requirePackage(name, "tenantsFromKeyVault");
  const load = memoisePromise(async () => (await keyVault(2))(vault));
  return tenantsFromSecrets("tenantsFromKeyVault", filter, async (abortSignal) => {
    const client = await load();
    return {
      async list() {
        const listed: ListedSecret[] = [];
        for await (const secret of client.listPropertiesOfSecrets({ abortSignal })) {
          const { name, tags = {}, updatedOn, enabled } = secret;
          if (enabled !== false) listed.push({ name, tags, version: updatedOn?.toISOString() ?? "" });
        }
        return listed;
      },

      async fetchTexts(names, { fetched, failed }) {
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
      },
    };
  });
}

/** The app's managed identity in Azure. On another machine, the developer's login. */
export async function azureCredential(clientId?: string): Promise<TokenCredential> {
  const { DefaultAzureCredential } = await import("@azure/identity");
  return new DefaultAzureCredential(omitUndefined({ managedIdentityClientId: clientId }));
}
