import { createHash, createPublicKey, type JsonWebKey } from "node:crypto";
import type { JWTPayload, JWTVerifyOptions } from "jose";
import { loadPackage, rethrow } from "../../base/load-package.js";
import type { Delivery } from "./delivery.js";
import type { FetchText } from "./fetch-text.js";
import type { CheckedScheme } from "./read-scheme.js";
import type { Refusal } from "./refusal.js";
import { remoteDocuments } from "./remote-documents.js";
import type { SecretKeys } from "./secret-keys.js";
import { fillFirst } from "./template.js";
import { withoutPrefix } from "./token-verifier.js";
import type { TimeSettings, Verifier } from "./verifier.js";
import type { JwtRule } from "./verify-rules.js";

interface Settings extends TimeSettings {
  readonly fetchText: FetchText;
  readonly fetchMs: number;
}

/** Keys are fetched again after a day, and at once when a token names one that is not known. */
const maxAgeMs = 86_400_000;
const maxTokenLength = 8_192;

/** Verifies a JSON web token by the package `jose`, which is loaded at the first delivery. */
export function createJwtVerifier(
  { proof }: CheckedScheme,
  rule: JwtRule,
  secrets: SecretKeys<{ readonly secret: string }>,
  settings: Settings,
): Verifier {
  const jose = () =>
    loadPackage("jose", () => import("jose").catch(rethrow), "A scheme with JSON web tokens");
  const published = remoteDocuments({
    ...settings,
    maxAgeMs,
    parse: (text) => JSON.parse(text) as { keys: JsonWebKey[] },
  });

  const verify = async (delivery: Delivery): Promise<Refusal | undefined> => {
    const [given, { createLocalJWKSet, decodeProtectedHeader, importJWK, jwtVerify }] = await Promise.all([
      secrets.get(),
      jose(),
    ]);
    const token = withoutPrefix(fillFirst(proof, delivery), rule.prefix ?? "");
    if (token === undefined) return "token missing";
    if (token.length > maxTokenLength) return "token wrong";
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
    /** Each of the source's own keys is tried: one in PEM has no name. */
    const byGiven = async (): Promise<JWTPayload | undefined> => {
      for (const { secret } of given) {
        const claims = await payloadOf(async () => {
          const { alg = "" } = decodeProtectedHeader(token);
          return jwtVerify(token, await importJWK(toJwk(secret) as never, alg), options);
        });
        if (claims !== undefined) return claims;
      }
      return undefined;
    };
    const claims = await (rule.jwksUrl === undefined ? byGiven() : byProvider(rule.jwksUrl, false));
    return claims === undefined ? "token wrong" : claimsRefusal(claims, delivery, given, rule, settings);
  };
  return Object.assign(verify, { prepare: () => secrets.get() });
}

function optionsOf(rule: JwtRule, { clock, futureMs }: Settings): JWTVerifyOptions {
  return {
    algorithms: [...rule.algorithms],
    ...(rule.issuer === undefined ? {} : { issuer: [rule.issuer].flat() as string[] }),
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

function claimsRefusal(
  claims: JWTPayload,
  { body }: Delivery,
  given: readonly { readonly secret: string }[],
  { jwksUrl, secretClaims = ["aud"], bodyHash }: JwtRule,
  { clock, pastMs }: Settings,
): Refusal | undefined {
  // a token without an end is as old as a signature may be
  if (claims.exp === undefined && !((claims.iat ?? 0) * 1_000 >= clock().getTime() - pastMs))
    return "timestamp too old";
  const isOurs = (claim: string) =>
    [claims[claim]].flat().some((value) => given.some(({ secret }) => secret === value));
  if (jwksUrl !== undefined && !secretClaims.every(isOurs)) return "sender unknown";
  if (bodyHash === undefined) return undefined;
  return claims[bodyHash] === createHash("sha256").update(body).digest("hex") ? undefined : "signature wrong";
}

/** A key as JSON, or in PEM. */
export const toJwk = (secret: string): JsonWebKey =>
  secret.startsWith("{")
    ? (JSON.parse(secret) as JsonWebKey)
    : createPublicKey(secret).export({ format: "jwk" });
