import { constants, createDecipheriv, createHmac, privateDecrypt } from "node:crypto";
import { isSameDigest } from "../../base/secrets.js";
import { InvalidArgumentError } from "../../errors.js";
import type { WebhookScheme } from "../schemes/scheme.js";
import { msgraph } from "./msgraph.js";

/** Notifications with the changed resource in them. Each delivery has a token for each app and tenant that it is for. */
export const msgraphdata = {
  ...msgraph,
  verify: {
    kind: "jwt",
    token: "{json:validationTokens}",
    jwksUrl: "https://login.microsoftonline.com/common/discovery/v2.0/keys",
    algorithms: ["RS256"],
    // of tokens of version 1, and of version 2, which an app may ask for
    issuer: ["https://sts.windows.net/{tid}/", "https://login.microsoftonline.com/{tid}/v2.0"],
    keyClaims: { tenantid: "tid" },
    // the app that sends change notifications; any other may have a token for ours
    claims: { "appid|azp": "0bf30f3b-4a52-48df-9a82-234910c4a086" },
    itemClaims: { tid: "{item:tenantId}" },
    itemSecret: "{item:clientState}",
  },
} as const satisfies WebhookScheme;

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
