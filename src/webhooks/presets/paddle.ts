import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const paddle = {
  verify: {
    kind: "signature",
    header: "paddle-signature",
    separator: ";",
    prefix: "h1=",
    signed: "{timestamp}:{body}",
    timestamp: { header: "paddle-signature", separator: ";", prefix: "ts=" },
  },
  messageId: "{json:event_id}",
  topic: "{json:event_type}",
  // a replay is a new notification of the same event
  volatileFields: ["notification_id"],
  contentTypes: ["application/json"],
  receiveMs: 4_000,
} as const satisfies WebhookScheme;

export const about = {
  name: "Paddle",
  batches: false,
  retries: "Live: 60 retries within 3 days. Sandbox: 3 within 15 minutes. After each answer but 200.",
  answerWithin: "5 s",
  secret: "The secret key of the notification destination (pdl_ntfset_…), used as text.",
  signs: "Time and body.",
  idIsUnique: "event_id identifies the event; a replay has the same, and another notification_id.",
  checked: {
    title:
      "Verify webhook signatures; Respond to webhooks (Paddle developer); paddle-node-sdk, webhooks-validator.node.test.ts",
    date: "2026-11",
    with: "vector",
    delivery: {
      page: "Handle webhook delivery (Paddle developer)",
      date: "2026-11-17",
      notSeen: "the sandbox",
    },
  },
} as const satisfies PresetAbout;
