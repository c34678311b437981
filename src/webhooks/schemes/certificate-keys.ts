import { X509Certificate } from "node:crypto";
import type { Delivery } from "./delivery.js";
import type { FetchText } from "./fetch-text.js";
import { verifyingKey } from "./key-pair.js";
import { isPinnedFile } from "./pinned-hosts.js";
import type { CheckedProof } from "./read-proof.js";
import type { Refusal } from "./refusal.js";
import { remoteDocuments } from "./remote-documents.js";
import type { SecretKeys } from "./secret-keys.js";
import type { SigningKey } from "./signing-key.js";
import { fill } from "./template.js";
import type { CertificateRule, PublicKeyAlgorithm, SignatureRule } from "./verify-rules.js";

/** The keys of a delivery: the certificate's public key, once for each of the source's secrets. */
export type KeysOf = (delivery: Delivery) => Promise<readonly SigningKey[] | Refusal>;

/** A secret of a source whose provider signs with a certificate: the name of the sender, not a key. */
export interface PinnedSecret {
  readonly secret: string;
}

const dayMs = 86_400_000;

export interface CertificateOptions {
  readonly fetchText: FetchText;
  readonly fetchMs: number;
  readonly clock: () => Date;
}

/** Returns the public key of the certificate that the delivery names, from one of the provider's own hosts. */
export function certificateKeys(
  { certificateUrl, algorithmBy }: CheckedProof,
  rule: SignatureRule & { readonly certificate: CertificateRule },
  secrets: SecretKeys<PinnedSecret>,
  options: CertificateOptions,
): KeysOf {
  const certificateAt = remoteDocuments({
    ...options,
    maxAgeMs: dayMs,
    parse: (text) => new X509Certificate(text),
  });
  return async (delivery) => {
    const pinned = await secrets.get();
    const url = fill(certificateUrl ?? [], delivery);
    if (url === undefined || !isPinnedFile(url, rule.certificate.hosts))
      return "certificate not of the provider";
    const certificate = await certificateAt(url);
    const now = options.clock().getTime();
    const isValid = Date.parse(certificate.validFrom) <= now && now <= Date.parse(certificate.validTo);
    if (!isValid) return "certificate not valid";
    const named = algorithmBy && fill(algorithmBy, delivery);
    const algorithm = algorithmBy === undefined ? rule.algorithm : rule.algorithmBy?.is[named ?? ""];
    if (algorithm === undefined) return "algorithm unknown";
    const key = verifyingKey(certificate.publicKey, algorithm as PublicKeyAlgorithm, rule.prefix ?? "");
    return typeof key === "string"
      ? "certificate not valid"
      : pinned.map(({ secret }) => ({ ...key, secret }));
  };
}
