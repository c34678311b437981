import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const standard = {
  verify: {
    kind: "signature",
    header: "webhook-signature",
    separator: " ",
    encoding: "base64",
    signed: "{header:webhook-id}.{timestamp}.{body}",
    timestamp: { header: "webhook-timestamp" },
    keys: [
      { secretPrefix: "whpk_", secretEncoding: "base64", algorithm: "ed25519", prefix: "v1a," },
      { secretPrefix: "whsk_", secretEncoding: "base64", algorithm: "ed25519", prefix: "v1a," },
      { secretPrefix: "whsec_", secretEncoding: "base64", algorithm: "sha256", prefix: "v1," },
      { secretEncoding: "base64", algorithm: "sha256", prefix: "v1," },
    ],
  },
  messageId: "{header:webhook-id}",
  topic: "{json:type}",
  keepHeaders: ["webhook-id", "webhook-timestamp"],
} as const satisfies WebhookScheme;

export const about = {
  name: "Standard Webhooks",
  batches: false,
  retries: "The sender decides. The specification recommends retries for several days.",
  answerWithin: undefined,
  secret: "whsec_ and base64 for HMAC; whpk_ and base64 for Ed25519.",
  signs: "Id, timestamp and body.",
  idIsUnique: "webhook-id identifies the event, and a retry keeps it.",
  checked: { title: "Standard Webhooks specification", date: "2026-11", with: "documentation" },
} as const satisfies PresetAbout;
