import { createHash, createPublicKey, type JsonWebKey } from "node:crypto";
import type { JWTPayload } from "jose";
import { loadPackage, rethrow } from "../../base/require-package.js";
import { digestOf, isSameDigest, type SecretKeys } from "../../base/secrets.js";
import { type Delivery, maxItems, maxParsedBytes, splitDelivery } from "./delivery.js";
import { ProviderDocuments } from "./provider-keys.js";
import type { CheckedScheme } from "./read-scheme.js";
import type { JwtRule } from "./scheme.js";
import { type Alternatives, fill, fillFirst } from "./template.js";
import {
  type PinnedSecret,
  type Refusal,
  type VerifierSettings,
  type VerifyDelivery,
  withoutPrefix,
} from "./verifier.js";

const maxTokenLength = 8_192;

/** Verifies JSON web tokens by the package `jose`, which is loaded at the first delivery. */
export function createJwtVerifier(
  checked: CheckedScheme,
  rule: JwtRule,
  secrets: SecretKeys<PinnedSecret>,
  settings: VerifierSettings,
): VerifyDelivery {
  const published = new ProviderDocuments(settings, (text) => JSON.parse(text) as { keys: JsonWebKey[] });
  if (rule.jwksUrl !== undefined) published.trust(rule.jwksUrl);

  const claimsOf = async (token: string, given: readonly PinnedSecret[]): Promise<JWTPayload | undefined> => {
    const { createLocalJWKSet, decodeJwt, decodeProtectedHeader, importJWK, jwtVerify } = await loadJose();
    const options = {
      algorithms: [...rule.algorithms],
      currentDate: settings.clock(),
      clockTolerance: Math.ceil(settings.futureMs / 1_000),
    };
    /** Of the provider's keys, the one that the token names. It may have been published since they were fetched. */
    const byProvider = async (url: string, isFresh: boolean): Promise<JWTPayload | undefined> => {
      const { keys } = await published.at(url, isFresh);
      try {
        const claimed = decodeJwt(token);
        const allowed = keys.filter((key) => isForIssuer(key, claimed, rule));
        return (await jwtVerify(token, createLocalJWKSet({ keys: allowed } as never), options)).payload;
      } catch (error) {
        const isUnknown = (error as { code?: unknown }).code === "ERR_JWKS_NO_MATCHING_KEY";
        return isUnknown && !isFresh ? byProvider(url, true) : undefined;
      }
    };
    if (rule.jwksUrl !== undefined) return byProvider(rule.jwksUrl, false);
    // each of the source's own keys is tried: one in PEM has no name
    for (const { secret } of given) {
      try {
        const { alg = "" } = decodeProtectedHeader(token);
        return (await jwtVerify(token, await importJWK(toJwk(secret) as never, alg), options)).payload;
      } catch {
        // a wrong token is an expected outcome, whatever is wrong with it
      }
    }
    return undefined;
  };

  return async (delivery) => {
    const given = await secrets.get();
    const tokens = tokensIn(delivery, checked.proof, rule.prefix);
    if (typeof tokens === "string") return tokens;
    const all: JWTPayload[] = [];
    for (const token of tokens) {
      const claims = token.length > maxTokenLength ? undefined : await claimsOf(token, given);
      if (claims === undefined) return "token wrong";
      const refusal = claimsRefusal(claims, delivery, given, rule, settings);
      if (refusal !== undefined) return refusal;
      all.push(claims);
    }
    return itemsRefusal(delivery, checked, rule, all, given);
  };
}

const loadJose = () =>
  loadPackage("jose", () => import("jose").catch(rethrow), "A scheme with JSON web tokens");

/** A key as JSON, or in PEM. */
const toJwk = (secret: string): JsonWebKey =>
  secret.startsWith("{")
    ? (JSON.parse(secret) as JsonWebKey)
    : createPublicKey(secret).export({ format: "jwk" });

/** Each takes a signature to verify. Graph sends one for each app and tenant of a delivery. */
const maxTokens = 100;

/** Returns the JSON web tokens of a delivery: the one in its head, or those in its body, which may have a list of them. */
function tokensIn(delivery: Delivery, proof: Alternatives, prefix = ""): readonly string[] | Refusal {
  const inBody = proof.flat().find(({ placeholder }) => placeholder === "json");
  if (inBody === undefined) {
    const token = withoutPrefix(fillFirst(proof, delivery), prefix);
    return token === undefined ? "token missing" : [token];
  }
  if (delivery.body.length > maxParsedBytes) return "body too long to verify";
  const found = delivery.json()?.values(inBody.text, maxTokens) ?? [];
  if (found.length === 0) return "token missing";
  if (found.length > maxTokens) return "too many items to verify";
  return found.every((one) => one !== undefined) ? found : "token wrong";
}

const usualClaims = ["aud"];

/** What is wrong with the claims of a token whose signature is right. */
function claimsRefusal(
  claims: JWTPayload,
  { body }: Delivery,
  given: readonly PinnedSecret[],
  rule: JwtRule,
  { clock, pastMs }: VerifierSettings,
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

const isIssuer = (claims: JWTPayload, rule: JwtRule): boolean =>
  rule.issuer === undefined || issuersOf(claims, rule).some((one) => claims.iss === one);

const issuersOf = (claims: JWTPayload, { issuer = [] }: JwtRule): readonly string[] =>
  [issuer].flat().map((one) => one.replace(/\{(\w+)\}/g, (_, name) => String(claims[name] ?? "")));

/**
 * Whether the key may sign for the issuer of these claims. Microsoft publishes keys that sign for one tenant only beside those that
 * sign for all; each says whom it is for, by the issuer of version 2, also where the token has that of version 1.
 */
function isForIssuer({ issuer }: JsonWebKey, claims: JWTPayload, rule: JwtRule): boolean {
  if (typeof issuer !== "string") return true;
  const ofClaims = issuer.replace(/\{(\w+)\}/g, (_, name) =>
    String(claims[rule.keyClaims?.[name] ?? name] ?? ""),
  );
  return issuersOf(claims, rule).includes(ofClaims);
}

const hasClaims = (claims: JWTPayload, { claims: fixed = {} }: JwtRule): boolean =>
  Object.entries(fixed).every(([names, text]) => names.split("|").some((name) => claims[name] === text));

/** What the items of a delivery must have in common with its tokens, and with the source's secrets. */
function itemsRefusal(
  delivery: Delivery,
  { split, itemClaims = [], itemSecret }: CheckedScheme,
  rule: JwtRule,
  tokens: readonly JWTPayload[],
  given: readonly PinnedSecret[],
): Refusal | undefined {
  if (itemClaims.length === 0 && itemSecret === undefined) return undefined;
  const items = splitDelivery(delivery, split, maxItems);
  if (items.length > maxItems) return "too many items to verify";
  const secrets = unnamedIn(tokens, rule, given).map(({ secret }) => digestOf(secret));
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
function unnamedIn(
  tokens: readonly JWTPayload[],
  { secretClaims = usualClaims }: JwtRule,
  given: readonly PinnedSecret[],
): readonly PinnedSecret[] {
  if (given.length < 2) return given;
  const named = new Set(tokens.flatMap((claims) => secretClaims.flatMap((claim) => claims[claim])));
  return given.filter(({ secret }) => !named.has(secret));
}
