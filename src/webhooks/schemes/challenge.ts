import type { SignatureRule } from "./scheme.js";
import type { SecretKeys } from "./secret-keys.js";
import type { SigningKey } from "./signing-key.js";

/**
 * Answering a challenge with an HMAC signs unverified content under the key that signs events. So only content of this
 * form is signed, and `refusalOf` accepts no event of this form: an answer can then never serve as the signature of a
 * delivery, whatever the scheme signs. Providers' challenges are UUIDs, or random bytes in base64; their events are not.
 */
export const isChallenge = (content: string | Uint8Array): boolean =>
  content.length <= 256 && /^[\w.~+/=-]+$/.test(Buffer.from(content).toString("latin1"));

/** Returns the HMAC of a challenge in the scheme's encoding, or undefined when the content is not a challenge. */
export type ChallengeSigner = (challenge: string) => Promise<string | undefined>;

export const challengeSigner =
  ({ encoding = "hex" }: SignatureRule, keys: SecretKeys<SigningKey>): ChallengeSigner =>
  async (challenge) => {
    if (!isChallenge(challenge)) return undefined;
    const [key] = await keys.get(); // never empty: a source without a secret is refused
    return Buffer.from(key!.sign(Buffer.from(challenge))).toString(encoding);
  };
