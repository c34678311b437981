import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const calendly = {
  verify: {
    kind: "signature",
    header: "calendly-webhook-signature",
    separator: ",",
    prefix: "v1=",
    signed: "{timestamp}.{body}",
    timestamp: { header: "calendly-webhook-signature", separator: ",", prefix: "t=" },
  },
  messageId: ["{json:event}/{json:payload.uri}/{json:created_at}", "{hash}"],
  topic: "{json:event}",
  tenant: "{json:created_by}",
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;

export const about = {
  name: "Calendly",
  batches: false,
  retries:
    "Retries for 24 hours, less and less often, after each answer but 2xx. Then the webhook is disabled.",
  answerWithin: "15 s",
  secret: "The webhook signing key, used as text.",
  signs: "Time and body.",
  idIsUnique: "There is none. Kind, address of the invitee and time identify the event.",
  checked: {
    title: "Webhook signatures; Webhook errors; Webhook timeouts (Calendly developer)",
    date: "2026-11",
    with: "documentation",
    delivery: {
      page: "How does a webhook become disabled? (Calendly developer FAQ)",
      date: "2026-11-17",
      notSeen: "the 15 s",
    },
  },
} as const satisfies PresetAbout;
