import { createHash } from "node:crypto";
import type { JWTPayload } from "jose";
import { isSameDigest } from "../../base/same-digest.js";
import type { Delivery } from "./delivery.js";
import { maxItems } from "./proven-events.js";
import type { CheckedScheme } from "./read-scheme.js";
import type { Refusal } from "./refusal.js";
import { splitDelivery } from "./split-delivery.js";
import { fill } from "./template.js";
import type { TimeSettings } from "./verifier.js";
import type { JwtRule, VerifyRule } from "./verify-rules.js";

/** The source's secrets: names of what the provider's keys sign for. */
export type Names = readonly { readonly secret: string }[];

const usualClaims = ["aud"];

/** What is wrong with the claims of a token whose signature is right. */
export function claimsRefusal(
  claims: JWTPayload,
  { body }: Delivery,
  given: Names,
  rule: JwtRule,
  { clock, pastMs }: TimeSettings,
): Refusal | undefined {
  // a token without an end is as old as a signature may be
  if (claims.exp === undefined && !((claims.iat ?? 0) * 1_000 >= clock().getTime() - pastMs))
    return "timestamp too old";
  if (!isIssuer(claims, rule) || !hasClaims(claims, rule)) return "token wrong";
  const { jwksUrl, secretClaims = usualClaims, bodyHash } = rule;
  const isOurs = (claim: string) =>
    [claims[claim]].flat().some((value) => given.some(({ secret }) => secret === value));
  if (jwksUrl !== undefined && !secretClaims.every(isOurs)) return "sender unknown";
  if (bodyHash === undefined) return undefined;
  return claims[bodyHash] === createHash("sha256").update(body).digest("hex") ? undefined : "signature wrong";
}

/** What the items of a delivery must have in common with its tokens, and with the source's secrets. */
export function itemsRefusal(
  delivery: Delivery,
  { scheme: { verify }, split, itemClaims = [], itemSecret }: CheckedScheme,
  tokens: readonly JWTPayload[],
  given: Names,
): Refusal | undefined {
  if (itemClaims.length === 0 && itemSecret === undefined) return undefined;
  const items = splitDelivery(delivery, split, maxItems);
  if (items.length > maxItems) return "too many items to verify";
  const secrets = unnamedIn(tokens, verify, given).map(({ secret }) => digest(secret));
  for (const item of items) {
    const isOfToken = ([claim, parts]: (typeof itemClaims)[number]) => {
      const value = fill(parts, item);
      return value !== undefined && tokens.some((claims) => claims[claim] === value);
    };
    if (!itemClaims.every(isOfToken)) return "sender unknown";
    const secret = itemSecret && digest(fill(itemSecret, item) ?? "");
    if (secret !== undefined && !secrets.some((one) => isSameDigest(secret, one))) return "sender unknown";
  }
  return undefined;
}

/**
 * The secrets that no token names. What a token names is no secret: the id of an app is known to all who use it, and
 * whoever has a token for that app could write it into the items. A single secret, as in a local run, is both.
 */
function unnamedIn(tokens: readonly JWTPayload[], verify: VerifyRule, given: Names): Names {
  if (given.length < 2 || verify.kind !== "jwt") return given;
  const { secretClaims = usualClaims } = verify;
  const named = new Set(tokens.flatMap((claims) => secretClaims.flatMap((claim) => claims[claim])));
  return given.filter(({ secret }) => !named.has(secret));
}

const isIssuer = (claims: JWTPayload, { issuer }: JwtRule): boolean =>
  issuer === undefined ||
  [issuer]
    .flat()
    .some((one) => claims.iss === one.replace(/\{(\w+)\}/g, (_, name) => String(claims[name] ?? "")));

const hasClaims = (claims: JWTPayload, { claims: fixed = {} }: JwtRule): boolean =>
  Object.entries(fixed).every(([names, text]) => names.split("|").some((name) => claims[name] === text));

const digest = (text: string): Uint8Array => createHash("sha256").update(text).digest();
