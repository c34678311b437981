import { createPublicKey, sign } from "node:crypto";

/** A part of a certificate: its tag, its length and its content (ITU-T X.690). */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const bytes = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...bytes]), content]);
}

const sequence = (...parts: readonly Uint8Array[]): Buffer => der(0x30, ...parts);

/** sha256WithRSAEncryption */
const algorithm = Buffer.from("300d06092a864886f70d01010b0500", "hex");
const commonName = Buffer.from("0603550403", "hex");

const named = (name: string): Buffer =>
  sequence(der(0x31, sequence(commonName, der(0x0c, Buffer.from(name)))));

const time = (at: Date): Buffer =>
  der(0x18, Buffer.from(`${at.toISOString().replaceAll(/[-:T]/g, "").slice(0, 14)}Z`));

/**
 * A certificate for the RSA key of a local run. It stands for the one that a provider publishes (PayPal, SNS), which a test
 * request cannot be signed with. Node can read certificates and not make them.
 */
export function selfSignedCertificate(
  privateKey: string,
  name: string,
  validFrom: Date,
  validTo: Date,
): string {
  const publicKey = createPublicKey(privateKey).export({ type: "spki", format: "der" });
  const serial = der(0x02, Buffer.from([1]));
  const validity = sequence(time(validFrom), time(validTo));
  const content = sequence(serial, algorithm, named(name), validity, named(name), publicKey);
  const signature = der(0x03, Buffer.from([0]), sign("sha256", content, privateKey));
  const text = sequence(content, algorithm, signature).toString("base64");
  const lines = text.match(/.{1,64}/g) ?? [];
  return ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n");
}
