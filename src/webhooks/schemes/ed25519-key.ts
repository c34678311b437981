import { createPrivateKey, createPublicKey } from "node:crypto";
import { keyPair } from "./key-pair.js";
import type { SigningKey } from "./signing-key.js";

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

export function ed25519Key(bytes: Uint8Array, prefix: string, isPrivate: boolean): SigningKey | string {
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
  return keyPair({ digest: null, prefix, publicKey, privateKey });
}
