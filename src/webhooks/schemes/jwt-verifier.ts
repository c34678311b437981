import { createHash, createPublicKey, type JsonWebKey } from "node:crypto";
import type { JWTPayload, JWTVerifyOptions } from "jose";
import { loadPackage, rethrow } from "../../base/require-package.js";
import type { SecretKeys } from "../../base/secrets.js";
import { digestOf, isSameDigest } from "../../base/secrets.js";
import { type Delivery, maxItems, maxParsedBytes, splitDelivery } from "./delivery.js";
import { type FetchText, remoteDocuments } from "./provider-keys.js";
import type { CheckedScheme } from "./read-scheme.js";
import type { JwtRule, VerifyRule } from "./scheme.js";
import { fill, fillFirst, jsonValue } from "./template.js";
import { type Refusal, type TimeSettings, type Verifier, withoutPrefix } from "./verifier.js";

interface JwtSettings extends TimeSettings {
  readonly fetchText: FetchText;
  readonly fetchMs: number;
}

/** Keys are fetched again after a day, and at once when a token names one that is not known. */
const keysMaxAgeMs = 86_400_000;
const maxTokenLength = 8_192;

/** Verifies JSON web tokens by the package `jose`, which is loaded at the first delivery. */
export function createJwtVerifier(
  checked: CheckedScheme,
  rule: JwtRule,
  secrets: SecretKeys<{ readonly secret: string }>,
  settings: JwtSettings,
): Verifier {
  const jose = () =>
    loadPackage("jose", () => import("jose").catch(rethrow), "A scheme with JSON web tokens");
  const published = remoteDocuments({
    ...settings,
    maxAgeMs: keysMaxAgeMs,
    parse: (text) => JSON.parse(text) as { keys: JsonWebKey[] },
  });

  const claimsOf = async (token: string, given: Names): Promise<JWTPayload | undefined> => {
    const { createLocalJWKSet, decodeProtectedHeader, importJWK, jwtVerify } = await jose();
    const options = optionsOf(rule, settings);
    /** Of the provider's keys, the one that the token names. It may have been published since they were fetched. */
    const byProvider = async (url: string, isFresh: boolean): Promise<JWTPayload | undefined> => {
      const keys = createLocalJWKSet((await published(url, isFresh)) as never);
      try {
        return (await jwtVerify(token, keys, options)).payload;
      } catch (error) {
        const isUnknown = (error as { code?: unknown }).code === "ERR_JWKS_NO_MATCHING_KEY";
        return isUnknown && !isFresh ? byProvider(url, true) : undefined;
      }
    };
    if (rule.jwksUrl !== undefined) return byProvider(rule.jwksUrl, false);
    // each of the source's own keys is tried: one in PEM has no name
    for (const { secret } of given) {
      const claims = await payloadOf(async () => {
        const { alg = "" } = decodeProtectedHeader(token);
        return jwtVerify(token, await importJWK(toJwk(secret) as never, alg), options);
      });
      if (claims !== undefined) return claims;
    }
    return undefined;
  };

  const verify = async (delivery: Delivery): Promise<Refusal | undefined> => {
    const given = await secrets.get();
    const tokens = tokensIn(delivery, checked, rule);
    if (typeof tokens === "string") return tokens;
    const all: JWTPayload[] = [];
    for (const token of tokens) {
      const claims = token.length > maxTokenLength ? undefined : await claimsOf(token, given);
      if (claims === undefined) return "token wrong";
      const refusal = claimsRefusal(claims, delivery, given, rule, settings);
      if (refusal !== undefined) return refusal;
      all.push(claims);
    }
    return itemsRefusal(delivery, checked, all, given);
  };
  return Object.assign(verify, { prepare: () => secrets.get() });
}

function optionsOf(rule: JwtRule, { clock, futureMs }: JwtSettings): JWTVerifyOptions {
  return {
    algorithms: [...rule.algorithms],
    currentDate: clock(),
    clockTolerance: Math.ceil(futureMs / 1_000),
  };
}

/** A wrong token is an expected outcome, whatever is wrong with it. */
const payloadOf = (verified: () => Promise<{ payload: JWTPayload }>): Promise<JWTPayload | undefined> =>
  verified().then(
    ({ payload }) => payload,
    () => undefined,
  );

/** A key as JSON, or in PEM. */
export const toJwk = (secret: string): JsonWebKey =>
  secret.startsWith("{")
    ? (JSON.parse(secret) as JsonWebKey)
    : createPublicKey(secret).export({ format: "jwk" });

/** Each takes a signature to verify. Graph sends one for each app and tenant of a delivery. */
const maxTokens = 100;

/** Returns the JSON web tokens of a delivery: the one in its head, or those in its body, which may have a list of them. */
export function tokensIn(
  delivery: Delivery,
  { proof }: Pick<CheckedScheme, "proof">,
  { prefix = "" }: JwtRule,
): readonly string[] | Refusal {
  const inBody = proof.flat().find(({ placeholder }) => placeholder === "json");
  if (inBody === undefined) {
    const token = withoutPrefix(fillFirst(proof, delivery), prefix);
    return token === undefined ? "token missing" : [token];
  }
  if (delivery.body.length > maxParsedBytes) return "body too long to verify";
  const found = [jsonValue(delivery.json(), inBody.text) ?? []].flat();
  if (found.length === 0) return "token missing";
  if (found.length > maxTokens) return "too many items to verify";
  return found.every((one) => typeof one === "string") ? found : "token wrong";
}

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
  const secrets = unnamedIn(tokens, verify, given).map(({ secret }) => digestOf(secret));
  for (const item of items) {
    const isOfToken = ([claim, parts]: (typeof itemClaims)[number]) => {
      const value = fill(parts, item);
      return value !== undefined && tokens.some((claims) => claims[claim] === value);
    };
    if (!itemClaims.every(isOfToken)) return "sender unknown";
    const secret = itemSecret && digestOf(fill(itemSecret, item) ?? "");
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
