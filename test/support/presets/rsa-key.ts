import { createPublicKey, generateKeyPairSync, sign } from "node:crypto";
import { selfSignedCertificate } from "../../../src/cli/development-keys.js";

/** The key that stands for a provider's own. Made once, because it takes a while. */
const { privateKey } = generateKeyPairSync("rsa", {
  modulusLength: 2_048,
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
  publicKeyEncoding: { type: "spki", format: "pem" },
});

export const rsaPrivateKey = privateKey;
export const rsaPublicJwk = createPublicKey(privateKey).export({ format: "jwk" });

/** Valid at the tests' time. */
export const rsaCertificate = selfSignedCertificate(
  privateKey,
  "provider.example.com",
  new Date("2029-01-01"),
  new Date("2031-01-01"),
);

export const rsaSignature = (text: string, digest: "sha1" | "sha256" = "sha256"): string =>
  sign(digest, Buffer.from(text), privateKey).toString("base64");
