import { type KeyObject, sign } from "node:crypto";

/** A JSON web token in its compact form. @param algorithm RS256, ES256 and their like, which fits the key */
export function signedJwt(algorithm: string, claims: object, key: KeyObject): string {
  const content = `${base64url({ alg: algorithm, typ: "JWT" })}.${base64url(claims)}`;
  const digest = `sha${algorithm.slice(2)}`;
  const signature = sign(digest, Buffer.from(content), { key, dsaEncoding: "ieee-p1363" });
  return `${content}.${signature.toString("base64url")}`;
}

const base64url = (part: object): string => Buffer.from(JSON.stringify(part)).toString("base64url");
