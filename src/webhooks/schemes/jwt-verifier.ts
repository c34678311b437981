import { createHash, createPublicKey, type JsonWebKey } from "node:crypto";
import type { JWTPayload, JWTVerifyGetKey, JWTVerifyOptions } from "jose";
import { loadPackage } from "../../base/load-package.js";
import type { CheckedScheme } from "./check-scheme.js";
import type { Delivery } from "./delivery.js";
import type { FetchText } from "./fetch-text.js";
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
  const jose = () => loadPackage("jose", () => import("jose"), "A scheme with JSON web tokens");
  const published = remoteDocuments({
    ...settings,
    maxAgeMs,
    parse: (text) => JSON.parse(text) as { keys: JsonWebKey[] },
  });

  const verify = async (delivery: Delivery): Promise<Refusal | undefined> => {
    const [given, { createLocalJWKSet, jwtVerify }] = await Promise.all([secrets.get(), jose()]);
    const token = withoutPrefix(fillFirst(proof, delivery), rule.prefix ?? "");
    if (token === undefined) return "token missing";
    if (token.length > maxTokenLength) return "token wrong";
    const keys =
      rule.jwksUrl === undefined
        ? given.map(({ secret }) => toJwk(secret))
        : (await published(rule.jwksUrl)).keys;
    const claims = await claimsOf(() =>
      jwtVerify(token, createLocalJWKSet({ keys } as never) as JWTVerifyGetKey, optionsOf(rule, settings)),
    );
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
const claimsOf = (verified: () => Promise<{ payload: JWTPayload }>): Promise<JWTPayload | undefined> =>
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
