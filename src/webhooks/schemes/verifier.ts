import { createHash } from "node:crypto";
import { createSecretKeys, isSameDigest, type SecretKeysOptions, type Secrets } from "../../base/secrets.js";
import { type Delivery, splitDelivery } from "./delivery.js";
import type { CheckedScheme } from "./read-scheme.js";
import type { TokenRule } from "./scheme.js";
import { secretProblem } from "./signing-key.js";
import { fillFirst } from "./template.js";

/** Resolves to undefined when the delivery is genuine. Rejects when the secrets cannot be fetched. */
export interface Verifier {
  (delivery: Delivery): Promise<Refusal | undefined>;
  /** Fetches the secrets, where they are not known yet. */
  prepare(head: Delivery): Promise<unknown>;
}

export type SecretSettings = Omit<SecretKeysOptions<never>, "toKey">;

export interface TimeSettings {
  readonly clock: () => Date;
  readonly pastMs: number;
  readonly futureMs: number;
}

/** Why a delivery is refused. It is logged and never sent to the caller. */
export type Refusal =
  | "signature missing"
  | "signature malformed"
  | "signature wrong"
  | "signed like a challenge"
  | "timestamp missing"
  | "timestamp too old"
  | "timestamp too new"
  | "signed header missing"
  | "signed header ambiguous"
  | "body not signed"
  | "body too long to verify"
  | "too many items to verify"
  | "sender unknown"
  | "algorithm unknown"
  | "certificate not of the provider"
  | "certificate not valid"
  | "tenant missing"
  | "tenant unknown"
  | "token missing"
  | "token wrong";

/** A body is parsed before it is believed only where it has the signature or the token itself. Then it is short. */
export const maxParsedBytes = 1_048_576;
export const maxItems = 1_000;

/** Returns the parts of a delivery of which each has its own proof: its items, or the whole delivery. */
export function provenEvents(
  delivery: Delivery,
  { proof, signatureIn, split }: Pick<CheckedScheme, "proof" | "signatureIn" | "split">,
): readonly Delivery[] | Refusal {
  const isPerItem = [...proof, signatureIn ?? []].flat().some(({ placeholder }) => placeholder === "item");
  if (!isPerItem && signatureIn === undefined) return [delivery];
  if (delivery.body.length > maxParsedBytes) return "body too long to verify";
  if (!isPerItem) return [delivery];
  const events = splitDelivery(delivery, split, maxItems);
  return events.length > maxItems ? "too many items to verify" : events;
}

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
