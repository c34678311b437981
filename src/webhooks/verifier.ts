import { createHash, timingSafeEqual } from "node:crypto";
import type { CheckedScheme } from "./check-scheme.js";
import type { Delivery } from "./delivery.js";
import { createSecretKeys, type SecretKeysOptions, type Secrets } from "./secrets.js";
import { type Refusal, refusalOf } from "./signature.js";
import { secretProblem, toSigningKey } from "./signing-key.js";
import { fillFirst } from "./template.js";

/** undefined when the delivery is to be believed. Rejects when the secrets cannot be had. */
export type Verifier = (delivery: Delivery) => Promise<Refusal | undefined>;

export type SecretSettings = Omit<SecretKeysOptions<never>, "toKey">;

/** Of a scheme: its signature or its token. */
export function createVerifier(
  { scheme: { verify }, proof }: CheckedScheme,
  secrets: Secrets,
  options: SecretSettings & { readonly toleranceMs: number },
): Verifier {
  if (verify.kind === "token") {
    return createTokenVerifier((delivery) => fillFirst(proof, delivery), secrets, options);
  }
  const keys = createSecretKeys(secrets, { ...options, toKey: (secret) => toSigningKey(verify, secret) });
  return async (delivery) =>
    refusalOf(delivery, await keys.get(), {
      rule: verify,
      signed: proof,
      toleranceMs: options.toleranceMs,
      nowMs: options.clock().getTime(),
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
