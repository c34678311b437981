import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

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

export const about = {
  name: "Standard Webhooks",
  batches: false,
  retries:
    "The sender decides. The specification recommends retries for several days, a time limit of 15 to 30 s, and that 410 ends the webhook.",
  answerWithin: undefined,
  secret: "HMAC: whsec_ or v1,whsec_ and base64, or base64 alone. Ed25519: whpk_ and base64.",
  signs: "Id, timestamp and body. Each retry is signed with its own time.",
  idIsUnique: "webhook-id identifies the event, and a retry keeps it.",
  checked: {
    title: "Standard Webhooks specification",
    date: "2026-11",
    with: "sdk",
    delivery: { page: "Standard Webhooks specification", date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
