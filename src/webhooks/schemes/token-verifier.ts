import { createHash } from "node:crypto";
import { isSameDigest } from "../../base/same-digest.js";
import type { Delivery } from "./delivery.js";
import { provenEvents } from "./proven-events.js";
import type { CheckedScheme } from "./read-scheme.js";
import type { Refusal } from "./refusal.js";
import { createSecretKeys, type Secrets } from "./secret-keys.js";
import { secretProblem } from "./signing-key.js";
import { fillFirst } from "./template.js";
import type { SecretSettings, Verifier } from "./verifier.js";
import type { TokenRule } from "./verify-rules.js";

type TokensOf = (delivery: Delivery) => readonly (string | undefined)[] | Refusal;

export function createTokenVerifier(tokensOf: TokensOf, secrets: Secrets, options: SecretSettings): Verifier {
  const keys = createSecretKeys(secrets, { ...options, toKey: toTokenKey });
  const verify = async (delivery: Delivery): Promise<Refusal | undefined> => {
    const valid = await keys.get();
    const tokens = tokensOf(delivery);
    if (typeof tokens === "string") return tokens;
    if (tokens.length === 0) return "token missing";
    for (const token of tokens) {
      if (token === undefined) return "token missing";
      const given = digest(token);
      if (!valid.some((key) => isSameDigest(given, key))) return "token wrong";
    }
    return undefined;
  };
  return Object.assign(verify, { prepare: () => keys.get() });
}

/** The token of the delivery, or that of each of its items. */
export const tokensOf =
  (checked: CheckedScheme, { prefix = "" }: Pick<TokenRule, "prefix">): TokensOf =>
  (delivery) => {
    const events = provenEvents(delivery, checked);
    if (typeof events === "string") return events;
    return events.map((event) => withoutPrefix(fillFirst(checked.proof, event), prefix));
  };

/** Returns undefined for a text without the prefix. As in `Bearer …`, its case does not count. */
export const withoutPrefix = (text: string | undefined, prefix: string): string | undefined =>
  text?.slice(0, prefix.length).toLowerCase() === prefix.toLowerCase()
    ? text.slice(prefix.length)
    : undefined;

/** Digests have one length, so comparing them does not reveal the token's length. */
export const toTokenKey = (secret: unknown): Uint8Array | string =>
  secretProblem(secret) ?? digest(secret as string);

const digest = (text: string): Uint8Array => createHash("sha256").update(text).digest();
