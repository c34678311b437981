import { memoisePromise } from "../../base/memoise-promise.js";
import { requirePackage } from "../../base/require-package.js";
import type { KeysOf } from "./certificate-keys.js";
import { type ChallengeSigner, challengeSigner } from "./challenge.js";
import type { Delivery } from "./delivery.js";
import type { FetchText } from "./fetch-text.js";
import type { CheckedScheme } from "./read-scheme.js";
import { createSecretKeys, type SecretKeys, type Secrets } from "./secret-keys.js";
import { createSignatureVerifier } from "./signature-verifier.js";
import { type SigningKey, secretProblem, toVerifyingKey } from "./signing-key.js";
import { createTokenVerifier, tokensOf, toTokenKey } from "./token-verifier.js";
import type { SecretSettings, TimeSettings, Verifier } from "./verifier.js";
import type { JwtRule, SignatureRule, VerifyRule } from "./verify-rules.js";

export interface VerifierSettings extends SecretSettings, TimeSettings {
  readonly fetchText: FetchText;
  /** Accepts secrets that can be guessed. */
  readonly allowShort: boolean;
}

export function createVerifier(
  checked: CheckedScheme,
  secrets: Secrets,
  settings: VerifierSettings,
): Verifier {
  const { verify } = checked.scheme;
  if (verify.kind === "token") return createTokenVerifier(tokensOf(checked, verify), secrets, settings);
  if (verify.kind === "jwt") return jwtVerifier(checked, verify, secrets, settings);
  const { keysOf, prepare } = signatureKeys(checked, verify, secrets, settings);
  return Object.assign(createSignatureVerifier(checked, verify, keysOf, settings), { prepare });
}

function signatureKeys(
  checked: CheckedScheme,
  rule: SignatureRule,
  secrets: Secrets,
  settings: VerifierSettings,
): { readonly keysOf: KeysOf; readonly prepare: Verifier["prepare"] } {
  if (rule.certificate !== undefined) {
    const pinned = createSecretKeys(secrets, { ...settings, toKey: toPinned });
    const withCertificate = { ...rule, certificate: rule.certificate };
    const made = memoisePromise(async () =>
      (await import("./certificate-keys.js")).certificateKeys(checked, withCertificate, pinned, settings),
    );
    return { keysOf: async (delivery) => (await made())(delivery), prepare: () => pinned.get() };
  }
  const keys = hmacOrPublicKeys(rule, secrets, settings);
  return { keysOf: keys.get, prepare: keys.get };
}

const hmacOrPublicKeys = (
  rule: SignatureRule,
  secrets: Secrets,
  settings: VerifierSettings,
): SecretKeys<SigningKey> =>
  createSecretKeys(secrets, { ...settings, toKey: (one) => toVerifyingKey(rule, one, settings.allowShort) });

/** The code for JSON web tokens, and that for certificates, is loaded by the first delivery: few apps have one. */
function jwtVerifier(
  checked: CheckedScheme,
  rule: JwtRule,
  secrets: Secrets,
  settings: VerifierSettings,
): Verifier {
  requirePackage("jose", "A scheme with JSON web tokens");
  const keys = createSecretKeys(secrets, { ...settings, toKey: toPinned });
  const made = memoisePromise(async () =>
    (await import("./jwt-verifier.js")).createJwtVerifier(checked, rule, keys, settings),
  );
  const verify = async (delivery: Delivery) => (await made())(delivery);
  return Object.assign(verify, { prepare: () => keys.get() });
}

/** Signs challenges of handshakes, where the scheme's signatures are HMACs. */
export function createChallengeSigner(
  { scheme: { verify }, handshakes }: CheckedScheme,
  secrets: Secrets,
  settings: VerifierSettings,
): ChallengeSigner | undefined {
  if (verify.kind !== "signature" || !handshakes.some(({ hmac }) => hmac !== undefined)) return undefined;
  return challengeSigner(verify, hmacOrPublicKeys(verify, secrets, settings));
}

/** How a source's secrets are checked before they are used. */
export const toKeyOf = (verify: VerifyRule, allowShort: boolean): ((secret: unknown) => object | string) => {
  if (verify.kind === "token") return toTokenKey;
  if (verify.kind === "jwt" || verify.certificate !== undefined) return toPinned;
  return (secret) => toVerifyingKey(verify, secret, allowShort);
};

/** A secret that is a name of the sender, and no key. */
const toPinned = (given: unknown): { readonly secret: string } | string => {
  const secret = typeof given === "string" ? given.trim() : given;
  return secretProblem(secret) ?? { secret: secret as string };
};
