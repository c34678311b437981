import { createHash } from "node:crypto";
import { isSameDigest } from "../../base/same-digest.js";
import type { CheckedScheme } from "./check-scheme.js";
import type { Delivery } from "./delivery.js";
import type { SignatureRule } from "./scheme.js";
import { createSecretKeys, type SecretKeys, type SecretKeysOptions, type Secrets } from "./secret-keys.js";
import { type SigningKey, secretProblem } from "./signing-key.js";
import { type Refusal, refusalOf } from "./verify-signature.js";

/** Resolves to undefined when the delivery is genuine. Rejects when the secrets cannot be fetched. */
export interface Verifier {
  (delivery: Delivery): Promise<Refusal | undefined>;
  /** Fetches the secrets, where they are not known yet. */
  prepare(head: Delivery): Promise<unknown>;
}

export type SecretSettings = Omit<SecretKeysOptions<never>, "toKey">;

export function createSignatureVerifier(
  { proof, handshakes }: CheckedScheme,
  rule: SignatureRule,
  keys: SecretKeys<SigningKey>,
  { toleranceMs, clock }: Pick<SecretSettings, "clock"> & { readonly toleranceMs: number },
): Verifier {
  const signsChallenges = handshakes.some(({ hmac }) => hmac !== undefined);
  const verify = async (delivery: Delivery) =>
    refusalOf(delivery, await keys.get(), {
      rule,
      signed: proof,
      signsChallenges,
      toleranceMs,
      nowMs: clock().getTime(),
    });
  return Object.assign(verify, { prepare: () => keys.get() });
}

export function createTokenVerifier(
  tokenOf: (delivery: Delivery) => string | undefined,
  secrets: Secrets,
  options: SecretSettings,
): Verifier {
  const keys = createSecretKeys(secrets, { ...options, toKey: toTokenKey });
  const verify = async (delivery: Delivery): Promise<Refusal | undefined> => {
    const valid = await keys.get();
    const token = tokenOf(delivery);
    if (token === undefined) return "token missing";
    const given = digest(token);
    return valid.some((key) => isSameDigest(given, key)) ? undefined : "token wrong";
  };
  return Object.assign(verify, { prepare: () => keys.get() });
}

/** Digests have one length, so comparing them does not reveal the token's length. */
export const toTokenKey = (secret: unknown): Uint8Array | string =>
  secretProblem(secret) ?? digest(secret as string);

const digest = (text: string): Uint8Array => createHash("sha256").update(text).digest();
