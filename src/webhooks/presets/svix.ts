import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";
import { standard } from "./standard.js";

/** The signature of Standard Webhooks, under headers svix-… or webhook-…, as the sender has chosen. */
export const svix = {
  ...standard,
  topic: ["{json:type}", "{json:eventType}"],
} as const satisfies WebhookScheme;

export const about = {
  name: "Svix",
  batches: false,
  retries:
    "After 5 s, 5 and 30 minutes, 2, 5, 10 and 10 hours, after anything but 2xx. After 5 days of failures the endpoint is disabled.",
  answerWithin: "15 s",
  secret: "The endpoint's signing secret: whsec_ and base64.",
  signs: "Id, timestamp and body. Each retry is signed with its own time.",
  idIsUnique: "svix-id is unique for each message, and a retry keeps it.",
  checked: {
    title: "Verifying payloads; Retry schedule",
    date: "2026-11",
    with: "sdk",
    delivery: { page: "Retry schedule", date: "2026-11" },
  },
} as const satisfies PresetAbout;
