import * as z from "zod/mini";
import { InvalidOperationError } from "../errors.js";

/** Where a secret is kept, for configuration that must not hold it. */
export const secretReference = () =>
  z.union(
    [
      /** An environment variable. */
      z.strictObject({ from: z.literal("env"), name: z.string().check(z.minLength(1)) }),
      /** AWS Secrets Manager; `key` picks one out of a JSON secret. */
      z.strictObject({
        from: z.literal("aws-secrets-manager"),
        id: z.string().check(z.minLength(1)),
        key: z.optional(z.string().check(z.minLength(1))),
      }),
      /** Azure Key Vault. */
      z.strictObject({
        from: z.literal("azure-key-vault"),
        vault: z.string().check(z.refine((url) => URL.canParse(url), "must be a URL")),
        name: z.string().check(z.minLength(1)),
      }),
    ],
    'must be {"from": "env", "name": …}, {"from": "aws-secrets-manager", "id": …} or {"from": "azure-key-vault", "vault": …, "name": …}',
  );

export type SecretReference = z.infer<ReturnType<typeof secretReference>>;

/** Fetches what a reference names. Each cloud's adapter knows its own store, and the environment. */
export type SecretResolver = (reference: SecretReference) => Promise<string>;

export const secretsFromEnvironment =
  (env: NodeJS.ProcessEnv): SecretResolver =>
  async (reference) => {
    if (reference.from !== "env") {
      throw new InvalidOperationError(
        `A secret is kept in ${reference.from}, which cannot be reached from here. Use { "from": "env", "name": … }.`,
      );
    }
    const value = env[reference.name];
    if (value === undefined || value === "") {
      throw new InvalidOperationError(
        `The environment variable ${reference.name}, which should hold a secret, is not set.`,
      );
    }
    return value;
  };
