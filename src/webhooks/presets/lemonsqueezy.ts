import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const lemonsqueezy = {
  verify: { kind: "signature", header: "x-signature" },
  messageId: [
    "{json:meta.event_name}/{json:data.type}/{json:data.id}/{json:data.attributes.updated_at}",
    "{hash}",
  ],
  topic: "{json:meta.event_name}",
  tenant: "{json:data.attributes.store_id}",
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;

export const about = {
  name: "Lemon Squeezy",
  batches: false,
  retries: "Up to 3 retries, after 5, 25 and 125 seconds, unless the answer is 200.",
  answerWithin: undefined,
  secret: "The signing secret of the webhook (6 to 40 characters), used as text.",
  signs: "The body.",
  idIsUnique: "There is none. Kind, object and the time of its change identify the event.",
  checked: {
    title: "Signing requests; Webhook requests (Lemon Squeezy docs)",
    date: "2026-11",
    with: "documentation",
    delivery: { page: "Webhook requests (Lemon Squeezy docs), as others quote it", date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
