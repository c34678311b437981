import type { SecretKeys } from "../secrets.js";
import type { SignatureRule } from "./scheme.js";
import type { SigningKey } from "./signing-key.js";

/**
 * Whoever answers challenges with an HMAC signs what strangers send, under the key that events are signed with. So only
 * this is signed, and nothing of this form is believed as an event (`refusalOf`): an answer is then never the signature of
 * a delivery, whatever the scheme signs. Providers' challenges are UUIDs, or random bytes in base64; their events are not.
 */
export const isChallenge = (content: string | Uint8Array): boolean =>
  content.length <= 256 && /^[\w.~+/=-]+$/.test(Buffer.from(content).toString("latin1"));

/** The HMAC of a challenge, as the scheme's signatures are written; undefined when it is none. */
export type ChallengeSigner = (challenge: string) => Promise<string | undefined>;

export const challengeSigner =
  ({ encoding = "hex" }: SignatureRule, keys: SecretKeys<SigningKey>): ChallengeSigner =>
  async (challenge) => {
    if (!isChallenge(challenge)) return undefined;
    const [key] = await keys.get(); // never empty: no secret is an error
    return Buffer.from(key!.sign(Buffer.from(challenge))).toString(encoding);
  };
