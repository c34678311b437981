import {
  createHmac,
  createPrivateKey,
  createPublicKey,
  sign as edSign,
  verify as edVerify,
  timingSafeEqual,
} from "node:crypto";
import { InvalidArgumentError } from "../../errors.js";
import { decodeExactly } from "./decode-exactly.js";
import type { DigestAlgorithm, KeyRule, SignatureRule } from "./scheme.js";

/** A secret that is decoded for one algorithm. */
export interface SigningKey {
  /** The prefix of its signatures. */
  readonly prefix: string;
  sign(content: Uint8Array): Uint8Array;
  /** Returns whether this key made one of the signatures. */
  verify(content: Uint8Array, signatures: readonly Uint8Array[]): boolean;
}

/** Returns what is wrong with a secret, whatever its kind. The text never quotes it. */
export function secretProblem(secret: unknown): string | undefined {
  if (typeof secret !== "string" || secret.trim() === "") return "is missing or empty";
  if (secret !== secret.trim()) return "has white space around it";
  return undefined;
}

/** Returns the key, or what is wrong with the secret. */
export function toSigningKey(rule: SignatureRule, secret: unknown): SigningKey | string {
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
  const bytes = secretEncoding === "utf8" ? Buffer.from(text) : decodeExactly(text, secretEncoding);
  if (bytes === undefined || bytes.length === 0) {
    return `is not ${secretEncoding}${secretPrefix === "" ? "" : ` after ${secretPrefix}`}`;
  }
  return kind.algorithm === "ed25519"
    ? ed25519Key(bytes, prefix, secretPrefix === "whsk_")
    : hmacKey(bytes, prefix, kind.algorithm);
}

function hmacKey(secret: Uint8Array, prefix: string, algorithm: DigestAlgorithm): SigningKey {
  const sign = (content: Uint8Array): Buffer => createHmac(algorithm, secret).update(content).digest();
  return {
    prefix,
    sign,
    verify(content, signatures) {
      const expected = sign(content);
      return signatures.some((one) => one.length === expected.length && timingSafeEqual(one, expected));
    },
  };
}

/** The bytes before the 32 bytes of an Ed25519 key in its DER encoding (RFC 8410). */
const publicHead = Buffer.from("302a300506032b6570032100", "hex");
const privateHead = Buffer.from("302e020100300506032b657004220420", "hex");

function ed25519Key(bytes: Uint8Array, prefix: string, isPrivate: boolean): SigningKey | string {
  // a private key may be followed by its public key
  const hasRightLength = isPrivate ? bytes.length === 32 || bytes.length === 64 : bytes.length === 32;
  if (!hasRightLength) return `has ${bytes.length} bytes, which is not the length of an Ed25519 key`;
  const der = (head: Buffer): Buffer => Buffer.concat([head, bytes.subarray(0, 32)]);
  const privateKey = isPrivate
    ? createPrivateKey({ key: der(privateHead), format: "der", type: "pkcs8" })
    : undefined;
  const publicKey = privateKey
    ? createPublicKey(privateKey.export({ format: "pem", type: "pkcs8" }))
    : createPublicKey({ key: der(publicHead), format: "der", type: "spki" });
  return {
    prefix,
    sign(content) {
      if (privateKey === undefined)
        throw new InvalidArgumentError("A public key cannot sign. Give the private key.");
      return edSign(null, content, privateKey);
    },
    verify: (content, signatures) => signatures.some((one) => edVerify(null, content, publicKey, one)),
  };
}
