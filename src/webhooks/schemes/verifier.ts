import { createHash, timingSafeEqual } from "node:crypto";
import type { CheckedScheme } from "./check-scheme.js";
import type { Delivery } from "./delivery.js";
import type { SignatureRule } from "./scheme.js";
import { createSecretKeys, type SecretKeys, type SecretKeysOptions, type Secrets } from "./secret-keys.js";
import { type SigningKey, secretProblem } from "./signing-key.js";
import { type Refusal, refusalOf } from "./verify-signature.js";

/** Resolves to undefined when the delivery is genuine. Rejects when the secrets cannot be fetched. */
export type Verifier = (delivery: Delivery) => Promise<Refusal | undefined>;

export type SecretSettings = Omit<SecretKeysOptions<never>, "toKey">;

export function createSignatureVerifier(
  { proof, handshakes }: CheckedScheme,
  rule: SignatureRule,
  keys: SecretKeys<SigningKey>,
  { toleranceMs, clock }: Pick<SecretSettings, "clock"> & { readonly toleranceMs: number },
): Verifier {
  const signsChallenges = handshakes.some(({ hmac }) => hmac !== undefined);
  return async (delivery) =>
    refusalOf(delivery, await keys.get(), {
      rule,
      signed: proof,
      signsChallenges,
      toleranceMs,
      nowMs: clock().getTime(),
    });
}

export function createTokenVerifier(
  tokenOf: (delivery: Delivery) => string | undefined,
  secrets: Secrets,
  options: SecretSettings,
): Verifier {
  const keys = createSecretKeys(secrets, { ...options, toKey: toTokenKey });
  return async (delivery) => {
    const valid = await keys.get();
    const token = tokenOf(delivery);
    if (token === undefined) return "token missing";
    const given = digest(token);
    return valid.some((key) => timingSafeEqual(key, given)) ? undefined : "token wrong";
  };
}

/** Digests have one length, so comparing them does not reveal the token's length. */
export const toTokenKey = (secret: unknown): Uint8Array | string =>
  secretProblem(secret) ?? digest(secret as string);

const digest = (text: string): Uint8Array => createHash("sha256").update(text).digest();
