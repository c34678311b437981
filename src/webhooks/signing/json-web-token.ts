import { createHash, createPrivateKey, sign } from "node:crypto";
import { InvalidArgumentError } from "../../errors.js";
import type { JwtRule } from "../schemes/verify-rules.js";

const base64url = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");

export interface TokenContent {
  readonly body: Uint8Array;
  /** The values of the claims that name the sender. The last one is used for all that remain. */
  readonly senders: readonly string[];
  /** A private key in PEM. */
  readonly privateKey: string;
  readonly at: Date;
  /** Claims beside those that the rule names. */
  readonly more?: Readonly<Record<string, string>>;
}

/** Makes the token that a provider would send. It ends after an hour, as Google's does. */
export function jsonWebToken(
  rule: JwtRule,
  { body, senders, privateKey, at, more = {} }: TokenContent,
): string {
  const [algorithm = ""] = rule.algorithms;
  const seconds = Math.floor(at.getTime() / 1_000);
  const names = rule.jwksUrl === undefined ? [] : (rule.secretClaims ?? ["aud"]);
  const claims = {
    iat: seconds,
    exp: seconds + 3_600,
    ...more,
    ...Object.fromEntries(Object.entries(rule.claims ?? {}).map(([of, text]) => [of.split("|")[0], text])),
    ...(rule.issuer === undefined
      ? {}
      : { iss: [rule.issuer].flat()[0]?.replace(/\{(\w+)\}/g, (_, name) => more[name] ?? "") }),
    ...Object.fromEntries(names.map((name, index) => [name, senders[index] ?? senders.at(-1)])),
    ...(rule.bodyHash === undefined
      ? {}
      : { [rule.bodyHash]: createHash("sha256").update(body).digest("hex") }),
  };
  const content = `${base64url({ alg: algorithm, typ: "JWT" })}.${base64url(claims)}`;
  return `${content}.${signatureOf(content, algorithm, privateKey)}`;
}

function signatureOf(content: string, algorithm: string, privateKey: string): string {
  if (!/^(RS|ES)(256|384|512)$/.test(algorithm))
    throw new InvalidArgumentError(`sign: a token with ${algorithm} cannot be made here.`);
  try {
    const key = { key: createPrivateKey(privateKey), dsaEncoding: "ieee-p1363" } as const;
    return sign(`sha${algorithm.slice(2)}`, Buffer.from(content), key).toString("base64url");
  } catch {
    throw new InvalidArgumentError(`sign: the private key is not one for ${algorithm}, in PEM.`);
  }
}
