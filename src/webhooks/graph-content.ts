import { constants, createDecipheriv, createHmac, privateDecrypt } from "node:crypto";
import { isSameDigest } from "../base/same-digest.js";
import { InvalidArgumentError } from "../errors.js";

/** `encryptedContent` of a change notification of Microsoft Graph. */
export interface GraphEncryptedContent {
  readonly data: string;
  readonly dataKey: string;
  readonly dataSignature: string;
  /** Says which private key is the right one. */
  readonly encryptionCertificateId?: string;
}

/**
 * Returns the changed resource of a notification, as the text of a JSON document. `privateKey` is the one of the
 * subscription's certificate, in PEM. Its error names neither a key nor the data.
 *
 * @example
 * const { encryptedContent } = JSON.parse(message.payload);
 * const resource = JSON.parse(decryptGraphContent(encryptedContent, privateKeyPem));
 */
export function decryptGraphContent(content: GraphEncryptedContent, privateKey: string): string {
  const key = dataKeyOf(content, privateKey);
  const data = Buffer.from(content.data, "base64");
  const signature = createHmac("sha256", key).update(data).digest();
  // the data is decrypted only if it is what Graph encrypted: otherwise the padding could be guessed
  if (!isSameDigest(signature, Buffer.from(content.dataSignature, "base64")))
    throw new InvalidArgumentError("decryptGraphContent: dataSignature is wrong; the data was changed.");
  const decipher = createDecipheriv("aes-256-cbc", key, key.subarray(0, 16));
  return Buffer.concat([decipher.update(data), decipher.final()]).toString("utf8");
}

function dataKeyOf({ dataKey, encryptionCertificateId }: GraphEncryptedContent, privateKey: string): Buffer {
  const padding = constants.RSA_PKCS1_OAEP_PADDING;
  try {
    return privateDecrypt({ key: privateKey, padding, oaepHash: "sha1" }, Buffer.from(dataKey, "base64"));
  } catch {
    throw new InvalidArgumentError(
      `decryptGraphContent: dataKey cannot be decrypted. Give the private key (PEM) of the certificate ${String(encryptionCertificateId)}.`,
    );
  }
}
