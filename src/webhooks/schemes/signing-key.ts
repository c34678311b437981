import { createHmac, createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { isSameDigest, leastSecretLength } from "../../base/secrets.js";
import { InvalidArgumentError } from "../../errors.js";
import type {
  DigestAlgorithm,
  KeyRule,
  PublicKeyAlgorithm,
  SignatureAlgorithm,
  SignatureEncoding,
  SignatureRule,
} from "./scheme.js";

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

/** A secret that webhooks are verified with. A shorter one can be guessed from a single signed delivery. */
export function toVerifyingKey(
  rule: SignatureRule,
  secret: unknown,
  allowShort: boolean,
): SigningKey | string {
  const key = toSigningKey(rule, secret);
  return typeof key === "string" ? key : (lengthProblem(key.secretBytes, allowShort) ?? key);
}

/** Returns what is wrong with the length of a secret or a token. */
export const lengthProblem = (bytes: number, allowShort: boolean): string | undefined =>
  allowShort || bytes >= leastSecretLength
    ? undefined
    : `has ${bytes} bytes; at least ${leastSecretLength} are needed, unless allowShortSecrets is set`;

const leastRsaBits = 2_048;
const publicKeyKinds = {
  ed25519: { type: "ed25519", digest: null }, // it hashes by itself
  "ecdsa-sha256": { type: "ec", digest: "sha256" },
  "rsa-sha256": { type: "rsa", digest: "sha256" },
  "rsa-sha1": { type: "rsa", digest: "sha1" },
} as const satisfies Record<PublicKeyAlgorithm, object>;

/** Makes a key of a PEM, or of the base64 of a public key's DER bytes. Returns what is wrong with it otherwise. */
export function pemKey(text: string, algorithm: PublicKeyAlgorithm, prefix: string): SigningKey | string {
  try {
    const privateKey = text.includes("PRIVATE KEY-----") ? createPrivateKey(text) : undefined;
    return verifyingKey(publicKeyOf(text), algorithm, prefix, privateKey);
  } catch {
    return "is not a key in PEM, or in base64";
  }
}

/** @param privateKey to sign: only its owner has it */
export function verifyingKey(
  publicKey: KeyObject,
  algorithm: PublicKeyAlgorithm,
  prefix: string,
  privateKey?: KeyObject,
): SigningKey | string {
  const { type, digest } = publicKeyKinds[algorithm];
  if (publicKey.asymmetricKeyType !== type) return `is not a key for ${algorithm}`;
  const bits = publicKey.asymmetricKeyDetails?.modulusLength ?? leastRsaBits;
  if (bits < leastRsaBits) return `has ${bits} bits; at least ${leastRsaBits} are needed`;
  return {
    prefix,
    hashesPerSignature: true,
    secretBytes: 32,
    sign(content) {
      if (privateKey === undefined)
        throw new InvalidArgumentError("A public key cannot sign. Give the private key.");
      return sign(digest, content, privateKey);
    },
    verify: (content, signatures) => signatures.some((one) => verify(digest, content, publicKey, one)),
  };
}

const publicKeyOf = (text: string): KeyObject =>
  text.startsWith("-----BEGIN")
    ? createPublicKey(text)
    : createPublicKey({ key: Buffer.from(text, "base64"), format: "der", type: "spki" });

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
  const publicKey = createPublicKey(privateKey ?? { key: der(publicHead), format: "der", type: "spki" });
  return verifyingKey(publicKey, "ed25519", prefix, privateKey);
}

/** `Buffer.from` skips characters that it cannot decode. This returns undefined for all but the one canonical encoding. */
export function decodeExactly(text: string, encoding: SignatureEncoding): Buffer | undefined {
  const bytes = Buffer.from(text, encoding);
  const same = bytes.toString(encoding) === (encoding === "hex" ? text.toLowerCase() : text);
  return same && text !== "" ? bytes : undefined;
}

/** The same for a secret, whose base64 may lack its padding: some consoles show it so. */
const decodeSecret = (text: string, encoding: SignatureEncoding): Buffer | undefined =>
  decodeExactly(encoding === "base64" ? text.padEnd(Math.ceil(text.length / 4) * 4, "=") : text, encoding);
