import { memoisePromise } from "../../base/memoise-promise.js";
import { requirePackage } from "../../base/require-package.js";
import { severalAtOnce } from "../../base/several-at-once.js";
import { InvalidArgumentError, InvalidOperationError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import { fromRecords, type TenantDiscovery } from "../../tenants/discovery/discovery.js";
import {
  type FetchTexts,
  type ListedSecret,
  type SecretFilter,
  tenantsOfSecrets,
} from "../../tenants/discovery/tenants-of-secrets.js";
import { azureCredential } from "./credential.js";

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
      await severalAtOnce(names, fetchesAtOnce, async (name) => {
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
