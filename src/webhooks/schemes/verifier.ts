import { createHash, timingSafeEqual } from "node:crypto";
import type { Delivery } from "../delivery.js";
import { createSecretKeys, type SecretKeys, type SecretKeysOptions, type Secrets } from "../secrets.js";
import type { CheckedScheme } from "./check-scheme.js";
import type { SignatureRule } from "./scheme.js";
import { type Refusal, refusalOf } from "./signature.js";
import { type SigningKey, secretProblem } from "./signing-key.js";

/** undefined when the delivery is to be believed. Rejects when the secrets cannot be had. */
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

/** Digests have one length: comparing them tells nothing of the token's. */
export const toTokenKey = (secret: unknown): Uint8Array | string =>
  secretProblem(secret) ?? digest(secret as string);

const digest = (text: string): Uint8Array => createHash("sha256").update(text).digest();
