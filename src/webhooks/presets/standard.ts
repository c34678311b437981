import type { WebhookScheme } from "../schemes/scheme.js";

/** The headers webhook-…, or svix-…, which some senders still have. */
export const standard = {
  verify: {
    kind: "signature",
    header: "webhook-signature|svix-signature",
    separator: " ",
    encoding: "base64",
    signed: "{header:webhook-id|svix-id}.{timestamp}.{body}",
    timestamp: { header: "webhook-timestamp|svix-timestamp" },
    keys: [
      { secretPrefix: "whpk_", secretEncoding: "base64", algorithm: "ed25519", prefix: "v1a," },
      { secretPrefix: "whsk_", secretEncoding: "base64", algorithm: "ed25519", prefix: "v1a," },
      { secretPrefix: "v1,whsec_", secretEncoding: "base64", algorithm: "sha256", prefix: "v1," },
      { secretPrefix: "whsec_", secretEncoding: "base64", algorithm: "sha256", prefix: "v1," },
      { secretEncoding: "base64", algorithm: "sha256", prefix: "v1," },
    ],
  },
  messageId: "{header:webhook-id|svix-id}",
  topic: "{json:type}",
  keepHeaders: ["webhook-id", "webhook-timestamp", "svix-id", "svix-timestamp"],
} as const satisfies WebhookScheme;
