import { memoisePromise } from "../../base/memoise-promise.js";
import {
  requirePackagesOf,
  type SecretResolver,
  secretsFromEnvironment,
  withoutFinalNewline,
} from "../../config/secret-reference.js";
import { InvalidOperationError } from "../../errors.js";
import { azureCredential } from "./credential.js";

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
  return Object.assign(resolve, { requirePackages: requirePackagesOf(env, "azure-key-vault") });
}
