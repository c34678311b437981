import { memoisePromise } from "../base/memoise-promise.js";
import {
  requirePackagesOf,
  type SecretResolver,
  secretsFromEnvironment,
} from "../config/secret-reference.js";

/** Resolves secrets of the environment and of both clouds' stores, as the deployed functions do. Loads a store's client at its first use. */
export function secretStores(env: NodeJS.ProcessEnv): SecretResolver {
  const environment = secretsFromEnvironment(env);
  const aws = memoisePromise(async () =>
    (await import("../adapters/aws/secrets-manager.js")).awsSecrets(env),
  );
  const azure = memoisePromise(async () =>
    (await import("../adapters/azure/key-vault.js")).azureSecrets(env),
  );
  const resolve: SecretResolver = async (reference) => {
    if (reference.from === "aws-secrets-manager") return (await aws())(reference);
    if (reference.from === "azure-key-vault") return (await azure())(reference);
    return environment(reference);
  };
  const requirePackages = requirePackagesOf(env, "aws-secrets-manager", "azure-key-vault");
  return Object.assign(resolve, { requirePackages });
}
