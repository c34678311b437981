import { createPublicKey, type JsonWebKey } from "node:crypto";
import type { JWTPayload, JWTVerifyOptions } from "jose";
import { loadPackage, rethrow } from "../../base/load-package.js";
import type { Delivery } from "./delivery.js";
import type { FetchText } from "./fetch-text.js";
import type { CheckedScheme } from "./read-scheme.js";
import type { Refusal } from "./refusal.js";
import { remoteDocuments } from "./remote-documents.js";
import type { SecretKeys } from "./secret-keys.js";
import { claimsRefusal, itemsRefusal, type Names } from "./token-claims.js";
import { tokensIn } from "./tokens-in-delivery.js";
import type { TimeSettings, Verifier } from "./verifier.js";
import type { JwtRule } from "./verify-rules.js";

interface Settings extends TimeSettings {
  readonly fetchText: FetchText;
  readonly fetchMs: number;
}

/** Keys are fetched again after a day, and at once when a token names one that is not known. */
const maxAgeMs = 86_400_000;
const maxTokenLength = 8_192;

/** Verifies JSON web tokens by the package `jose`, which is loaded at the first delivery. */
export function createJwtVerifier(
  checked: CheckedScheme,
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

function optionsOf(rule: JwtRule, { clock, futureMs }: Settings): JWTVerifyOptions {
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
