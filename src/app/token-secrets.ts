import { referenceIn, type SecretReference, type SecretResolver } from "../config/secret-reference.js";
import type { Secrets } from "../webhooks/schemes/secret-keys.js";
import { isReference, type SecretOrReference } from "./app-sources.js";

/** Tokens of a definition. References become functions that fetch. */
export const tokenSecrets = (
  tokens: SecretOrReference | readonly SecretOrReference[],
  resolve: SecretResolver,
): Secrets =>
  [tokens].flat().map((token) => {
    if (!isReference(token)) return token;
    resolve.requirePackages?.(token);
    return () => resolved(token, resolve);
  });

async function resolved(reference: SecretReference, resolve: SecretResolver): Promise<string> {
  const text = await resolve(reference);
  const inner = reference.from === "env" ? referenceIn(text) : undefined;
  return inner === undefined ? text : resolve(inner);
}
