import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { InvalidArgumentError } from "../../errors.js";
import type { SigningKey } from "./signing-key.js";
import type { PublicKeyAlgorithm } from "./verify-rules.js";

interface KeyPair {
  /** Null for Ed25519, which hashes by itself. */
  readonly digest: "sha1" | "sha256" | null;
  readonly prefix: string;
  readonly publicKey: KeyObject;
  /** Only its owner has it, to sign. */
  readonly privateKey?: KeyObject | undefined;
}

export const keyPair = ({ digest, prefix, publicKey, privateKey }: KeyPair): SigningKey => ({
  prefix,
  hashesPerSignature: true,
  secretBytes: 32,
  sign(content) {
    if (privateKey === undefined)
      throw new InvalidArgumentError("A public key cannot sign. Give the private key.");
    return sign(digest, content, privateKey);
  },
  verify: (content, signatures) => signatures.some((one) => verify(digest, content, publicKey, one)),
});

const leastRsaBits = 2_048;
const kinds = {
  ed25519: { type: "ed25519", digest: null },
  "ecdsa-sha256": { type: "ec", digest: "sha256" },
  "rsa-sha256": { type: "rsa", digest: "sha256" },
  "rsa-sha1": { type: "rsa", digest: "sha1" },
} as const satisfies Record<PublicKeyAlgorithm, object>;

/** Makes a key of a PEM, or of the base64 of a public key's DER bytes. Returns what is wrong with it otherwise. */
export function pemKey(text: string, algorithm: PublicKeyAlgorithm, prefix: string): SigningKey | string {
  const isPrivate = text.includes("PRIVATE KEY-----");
  try {
    const privateKey = isPrivate ? createPrivateKey(text) : undefined;
    const publicKey = privateKey === undefined ? publicKeyOf(text) : createPublicKey(text);
    return verifyingKey(publicKey, algorithm, prefix, privateKey);
  } catch {
    return "is not a key in PEM, or in base64";
  }
}

export function verifyingKey(
  publicKey: KeyObject,
  algorithm: PublicKeyAlgorithm,
  prefix: string,
  privateKey?: KeyObject,
): SigningKey | string {
  const { type, digest } = kinds[algorithm];
  if (publicKey.asymmetricKeyType !== type) return `is not a key for ${algorithm}`;
  const bits = publicKey.asymmetricKeyDetails?.modulusLength ?? leastRsaBits;
  if (bits < leastRsaBits) return `has ${bits} bits; at least ${leastRsaBits} are needed`;
  return keyPair({ digest, prefix, publicKey, privateKey });
}

const publicKeyOf = (text: string): KeyObject =>
  text.startsWith("-----BEGIN")
    ? createPublicKey(text)
    : createPublicKey({ key: Buffer.from(text, "base64"), format: "der", type: "spki" });
