import { createHmac } from "node:crypto";
import { isSameDigest } from "../../base/same-digest.js";
import { decodeSecret } from "./decode-exactly.js";
import { ed25519Key } from "./ed25519-key.js";
import { pemKey } from "./key-pair.js";
import type { DigestAlgorithm, KeyRule, SignatureAlgorithm, SignatureRule } from "./verify-rules.js";

/** A secret that is decoded for one algorithm. */
export interface SigningKey {
  /** The prefix of its signatures. */
  readonly prefix: string;
  /** Each signature costs a hash of the content. The HMAC of a content is computed once. */
  readonly hashesPerSignature: boolean;
  /** The bytes of a shared secret. A key pair has the strength of its algorithm. */
  readonly secretBytes: number;
  /** The text that `{secret}` stands for, and that `sender` must be. Only where a certificate has the key. */
  readonly secret?: string;
  sign(content: Uint8Array): Uint8Array;
  /** Returns whether this key made one of the signatures. */
  verify(content: Uint8Array, signatures: readonly Uint8Array[]): boolean;
}

/** Returns what is wrong with a secret, whatever its kind. The text never quotes it. */
export function secretProblem(secret: unknown): string | undefined {
  if (typeof secret === "object" && secret !== null)
    return 'is an object; give a text or a function, or in an app { from: "env", name: … }';
  if (typeof secret !== "string" || secret.trim() === "") return "is missing or empty";
  if (secret !== secret.trim()) return "has white space around it";
  return undefined;
}

export const isDigest = (algorithm: SignatureAlgorithm): algorithm is DigestAlgorithm =>
  algorithm.startsWith("sha");

/** Whether the scheme's signatures are HMACs, and all of one algorithm. */
export const hasHmac = ({ algorithm = "sha256", keys, certificate }: SignatureRule): boolean =>
  keys === undefined && certificate === undefined && isDigest(algorithm);

/** Returns the key, or what is wrong with the secret. */
export function toSigningKey(rule: SignatureRule, given: unknown): SigningKey | string {
  // a key in PEM ends with a line break
  const secret = typeof given === "string" && given.startsWith("-----BEGIN") ? given.trim() : given;
  const problem = secretProblem(secret);
  if (problem !== undefined) return problem;
  const { algorithm = "sha256", secretEncoding: written = "utf8" } = rule;
  const kinds: readonly KeyRule[] = rule.keys ?? [{ algorithm, secretEncoding: written }];
  const kind = kinds.find((one) => (secret as string).startsWith(one.secretPrefix ?? ""));
  if (kind === undefined) {
    return `starts with none of ${kinds.map((one) => one.secretPrefix).join(", ")}`;
  }
  const { secretEncoding = "utf8", secretPrefix = "", prefix = rule.prefix ?? "" } = kind;
  const text = (secret as string).slice(secretPrefix.length);
  const isPem = text.startsWith("-----BEGIN");
  if (!isDigest(kind.algorithm) && (isPem || kind.algorithm !== "ed25519"))
    return pemKey(text, kind.algorithm, prefix);
  const bytes = secretEncoding === "utf8" ? Buffer.from(text) : decodeSecret(text, secretEncoding);
  if (bytes === undefined || bytes.length === 0) {
    return `is not ${secretEncoding}${secretPrefix === "" ? "" : ` after ${secretPrefix}`}`;
  }
  return isDigest(kind.algorithm)
    ? hmacKey(bytes, prefix, kind.algorithm)
    : ed25519Key(bytes, prefix, secretPrefix === "whsk_");
}

function hmacKey(secret: Uint8Array, prefix: string, algorithm: DigestAlgorithm): SigningKey {
  const sign = (content: Uint8Array): Buffer => createHmac(algorithm, secret).update(content).digest();
  return {
    prefix,
    hashesPerSignature: false,
    secretBytes: secret.length,
    sign,
    verify(content, signatures) {
      const expected = sign(content);
      return signatures.some((one) => isSameDigest(one, expected));
    },
  };
}

const leastSecretBytes = 16;

/** A secret that webhooks are verified with. A shorter one can be guessed from a single signed delivery. */
export function toVerifyingKey(
  rule: SignatureRule,
  secret: unknown,
  allowShort: boolean,
): SigningKey | string {
  const key = toSigningKey(rule, secret);
  if (typeof key === "string" || allowShort || key.secretBytes >= leastSecretBytes) return key;
  return `has ${key.secretBytes} bytes; at least ${leastSecretBytes} are needed, unless allowShortSecrets is set`;
}
