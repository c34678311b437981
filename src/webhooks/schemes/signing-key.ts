import {
  createHmac,
  createPrivateKey,
  createPublicKey,
  sign as edSign,
  verify as edVerify,
} from "node:crypto";
import { isSameDigest } from "../../base/same-digest.js";
import { InvalidArgumentError } from "../../errors.js";
import { decodeExactly } from "./decode-exactly.js";
import type { DigestAlgorithm, KeyRule, SignatureRule } from "./scheme.js";

/** A secret that is decoded for one algorithm. */
export interface SigningKey {
  /** The prefix of its signatures. */
  readonly prefix: string;
  /** Each signature costs a hash of the content. The HMAC of a content is computed once. */
  readonly hashesPerSignature: boolean;
  /** The bytes of a shared secret. A key pair has the strength of its algorithm. */
  readonly secretBytes: number;
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

/** The y coordinates of the points whose order divides 8, also those that are not reduced. For them signatures can be made up. */
const smallOrder = [
  `00${"00".repeat(31)}`,
  `01${"00".repeat(31)}`,
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  `ec${"ff".repeat(30)}7f`,
  `ed${"ff".repeat(30)}7f`,
  `ee${"ff".repeat(30)}7f`,
];

function isSmallOrder(point: Uint8Array): boolean {
  const y = Buffer.from(point);
  y[31]! &= 0x7f; // the highest bit is the sign of x
  return smallOrder.includes(y.toString("hex"));
}

/** The bytes before the 32 bytes of an Ed25519 key in its DER encoding (RFC 8410). */
const publicHead = Buffer.from("302a300506032b6570032100", "hex");
const privateHead = Buffer.from("302e020100300506032b657004220420", "hex");

function ed25519Key(bytes: Uint8Array, prefix: string, isPrivate: boolean): SigningKey | string {
  // a private key may be followed by its public key
  const hasRightLength = isPrivate ? bytes.length === 32 || bytes.length === 64 : bytes.length === 32;
  if (!hasRightLength) return `has ${bytes.length} bytes, which is not the length of an Ed25519 key`;
  if (!isPrivate && isSmallOrder(bytes)) return "is a point of small order, with which anybody could sign";
  const der = (head: Buffer): Buffer => Buffer.concat([head, bytes.subarray(0, 32)]);
  const privateKey = isPrivate
    ? createPrivateKey({ key: der(privateHead), format: "der", type: "pkcs8" })
    : undefined;
  const publicKey = privateKey
    ? createPublicKey(privateKey.export({ format: "pem", type: "pkcs8" }))
    : createPublicKey({ key: der(publicHead), format: "der", type: "spki" });
  return {
    prefix,
    hashesPerSignature: true,
    secretBytes: 32,
    sign(content) {
      if (privateKey === undefined)
        throw new InvalidArgumentError("A public key cannot sign. Give the private key.");
      return edSign(null, content, privateKey);
    },
    verify: (content, signatures) => signatures.some((one) => edVerify(null, content, publicKey, one)),
  };
}
