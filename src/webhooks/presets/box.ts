import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const box = {
  verify: {
    kind: "signature",
    headers: ["box-signature-primary", "box-signature-secondary"],
    encoding: "base64",
    signed: "{body}{timestamp}",
    timestamp: { header: "box-delivery-timestamp", unit: "iso", maxAgeMs: 600_000 },
  },
  // not box-delivery-id, which a retry has anew
  messageId: "{json:id}",
  topic: "{json:trigger}",
  keepHeaders: ["box-delivery-id", "box-delivery-timestamp"],
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;

export const about = {
  name: "Box",
  batches: false,
  retries: "Up to 12 retries within 2 hours, after each answer but 2xx.",
  answerWithin: "30 s",
  secret:
    "The primary and the secondary signature key of the app, used as text. Give both: Box signs with both, so that one can be changed.",
  signs: "Body and time.",
  idIsUnique: "The id in the body stays the same in a retry.",
  checked: {
    title: "V2 webhooks; Signatures (Box developer); box-node-sdk, webhooks-test.js",
    date: "2026-11",
    with: "vector",
    delivery: { page: "V2 webhooks (Box developer)", date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
