import { requirePackage } from "../base/require-package.js";
import { InvalidOperationError } from "../errors.js";

/** Says where a secret is kept, for configuration that must not hold the secret itself. */
export type SecretReference =
  /** An environment variable. */
  | { readonly from: "env"; readonly name: string }
  /** AWS Secrets Manager. `key` selects one property of a secret that is a JSON object. */
  | { readonly from: "aws-secrets-manager"; readonly id: string; readonly key?: string | undefined }
  /** Azure Key Vault. `vault` is the vault's URL. */
  | { readonly from: "azure-key-vault"; readonly vault: string; readonly name: string };

/**
 * Refers to an environment variable.
 *
 * @example
 * const sources = { stripe: { secrets: env("STRIPE_WEBHOOK_SECRET") } };
 */
export const env = (name: string): SecretReference => ({ from: "env", name });

export const secretReferenceForms =
  '{"from": "env", "name": …}, {"from": "aws-secrets-manager", "id": …} or {"from": "azure-key-vault", "vault": …, "name": …}';

/** Unknown fields make it no reference: a misspelled `key` would select the wrong secret. */
export function isSecretReference(value: unknown): value is SecretReference {
  if (typeof value !== "object" || value === null) return false;
  const { from, ...fields } = value as Readonly<Record<string, unknown>>;
  const isText = (name: string) => typeof fields[name] === "string" && fields[name] !== "";
  const has = (required: readonly string[], optional?: string) =>
    required.every(isText) &&
    Object.keys(fields).every(
      (name) =>
        required.includes(name) || (name === optional && (fields[name] === undefined || isText(name))),
    );
  switch (from) {
    case "env":
      return has(["name"]);
    case "aws-secrets-manager":
      return has(["id"], "key");
    case "azure-key-vault":
      return has(["vault", "name"]) && URL.canParse(String(fields.vault));
    default:
      return false;
  }
}

/** Editors and `echo` end a text with a line break, which is no part of the secret. More white space than that is left to be refused. */
export const withoutFinalNewline = (text: string): string => text.replace(/\r?\n$/, "");

/** Fetches the secret that a reference names. Each cloud's adapter knows its own store, and the environment. */
export interface SecretResolver {
  (reference: SecretReference): Promise<string>;
  /** Refuses a reference when the package of its store is not installed. An app calls it when it starts. */
  readonly requirePackages?: (reference: SecretReference) => void;
}

type Store = Exclude<SecretReference["from"], "env">;

const stores: Readonly<Record<Store, { readonly user: string; readonly packages: readonly string[] }>> = {
  "aws-secrets-manager": {
    user: "A secret in AWS Secrets Manager",
    packages: ["@aws-sdk/client-secrets-manager"],
  },
  "azure-key-vault": {
    user: "A secret in Azure Key Vault",
    packages: ["@azure/keyvault-secrets", "@azure/identity"],
  },
};

/** Refuses a reference to one of the `known` stores when its package is missing. A variable of the environment may hold a reference in turn. */
export function requirePackages(
  reference: SecretReference,
  env: NodeJS.ProcessEnv,
  known: readonly Store[],
): void {
  const inner = reference.from === "env" ? referenceIn(env[reference.name] ?? "") : undefined;
  const { from } = inner ?? reference;
  if (from === "env" || !known.includes(from)) return;
  for (const name of stores[from].packages) requirePackage(name, stores[from].user);
}

/** Templates put a reference into the environment, and not the token itself. */
export function referenceIn(text: string): SecretReference | undefined {
  if (!text.trimStart().startsWith("{")) return undefined; // a token, which JSON.parse would make an error of
  try {
    const value: unknown = JSON.parse(text);
    return isSecretReference(value) ? value : undefined;
  } catch {
    return undefined; // a token
  }
}

/** Fetches a secret. The variable of the environment that it names may hold a reference in turn. */
export async function resolveThrough(
  reference: SecretReference,
  resolve: (reference: SecretReference) => Promise<string>,
): Promise<string> {
  const text = await resolve(reference);
  const inner = reference.from === "env" ? referenceIn(text) : undefined;
  return inner === undefined ? text : resolve(inner);
}

export const secretsFromEnvironment =
  (env: NodeJS.ProcessEnv): SecretResolver =>
  async (reference) => {
    if (!isSecretReference(reference))
      throw new InvalidOperationError(`A secret is an object, but not of the form ${secretReferenceForms}.`);
    if (reference.from !== "env") {
      throw new InvalidOperationError(
        `A secret is kept in ${reference.from}, which cannot be reached from here. Use { "from": "env", "name": … }.`,
      );
    }
    const value = withoutFinalNewline(env[reference.name] ?? "");
    if (value === "") {
      throw new InvalidOperationError(
        `The environment variable ${reference.name}, which should hold a secret, is not set.`,
      );
    }
    return value;
  };
