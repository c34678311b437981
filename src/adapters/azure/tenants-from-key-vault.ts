import { memoisePromise } from "../../base/memoise-promise.js";
import { severalAtOnce } from "../../base/several-at-once.js";
import { InvalidArgumentError, InvalidOperationError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import type { TenantDiscovery } from "../../tenants/discovery/discovery.js";
import {
  type FetchTexts,
  type ListedSecret,
  type SecretFilter,
  secretTenants,
} from "../../tenants/discovery/secret-tenants.js";
import { azureCredential } from "./credential.js";

export interface KeyVaultTenants extends SecretFilter {
  /** `https://name.vault.azure.net` */
  readonly vault: string;
}

/** A vault has no call for many; so many are asked for at once. */
const fetchersAtOnce = 10;

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
      "tenantsFromKeyVault: vault must be its URL: https://name.vault.azure.net.",
    );
  }
  if (!filter.prefix && filter.tag === undefined) {
    throw new InvalidArgumentError(
      "tenantsFromKeyVault needs a prefix or a tag: not every secret is a tenant.",
    );
  }
  const load = memoisePromise(async () => {
    const [{ SecretClient }, credential] = await Promise.all([
      import("@azure/keyvault-secrets"),
      azureCredential(),
    ]);
    return new SecretClient(vault, credential, { retryOptions: { maxRetries: 2 } });
  });
  const tenantsOf = secretTenants(filter);

  return async ({ signal: abortSignal, logger }) => {
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

    const fetchTexts: FetchTexts = async (names, { found, refused }) => {
      await severalAtOnce(names, fetchersAtOnce, async (name) => {
        try {
          const { value } = await client.getSecret(name, { abortSignal });
          if (!value) throw new InvalidOperationError("It is empty.");
          found(name, value);
        } catch (error) {
          // The time is over, or there were too many questions: the last list is better than half of one.
          if (abortSignal.aborted || (error as { statusCode?: unknown }).statusCode === 429) throw error;
          refused(name, error);
        }
      });
    };

    return tenantsOf(await list(), fetchTexts, logger);
  };
}
