import type { SignatureRule, WebhookScheme } from "../../webhooks/schemes/scheme.js";

export interface RuleChange {
  /** What the request has instead: "the signature is in base64". */
  readonly what: string;
  readonly scheme: WebhookScheme;
}

const digests = { sha1: "SHA-1", sha256: "SHA-256", sha512: "SHA-512" } as const;
const encodings = ["hex", "base64", "base64url"] as const;
const secretEncodings = { utf8: "as text", hex: "in hexadecimal digits", base64: "in base64" } as const;

/** Schemes that differ in one point, for a secret or a provider that is set up in another way. */
export function ruleChanges(scheme: WebhookScheme): readonly RuleChange[] {
  const { verify } = scheme;
  if (verify.kind !== "signature" || verify.keys !== undefined || verify.certificate !== undefined) return [];
  const with_ = (rule: Partial<SignatureRule>, what: string): RuleChange => ({
    what,
    scheme: { ...scheme, verify: { ...verify, ...rule } },
  });
  const isDigest = Object.hasOwn(digests, verify.algorithm ?? "sha256");
  return [
    ...encodings.map((encoding) => with_({ encoding }, `the signature is in ${encoding}`)),
    ...(isDigest
      ? Object.entries(secretEncodings).map(([encoding, how]) =>
          with_({ secretEncoding: encoding as keyof typeof secretEncodings }, `the secret is used ${how}`),
        )
      : []),
    ...(isDigest
      ? Object.entries(digests).map(([algorithm, name]) =>
          with_({ algorithm: algorithm as keyof typeof digests }, `the signature is made with ${name}`),
        )
      : []),
    ...(verify.prefix === undefined
      ? []
      : [with_(withoutPrefix(verify), `the signature lacks ${verify.prefix}`)]),
  ];
}

function withoutPrefix({ prefix: _, ...rule }: SignatureRule): Partial<SignatureRule> {
  return { ...rule, prefix: undefined } as unknown as Partial<SignatureRule>;
}
