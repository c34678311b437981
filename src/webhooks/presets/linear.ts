import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const linear = {
  verify: {
    kind: "signature",
    header: "linear-signature",
    timestamp: { json: "webhookTimestamp", unit: "ms" },
  },
  messageId: "{header:linear-delivery}",
  topic: "{json:type}.{json:action}",
  tenant: "{json:organizationId}",
  keepHeaders: ["linear-event", "linear-delivery"],
  // the time of sending, which a retry has anew
  volatileFields: ["webhookTimestamp"],
  contentTypes: ["application/json"],
  receiveMs: 4_000,
} as const satisfies WebhookScheme;

export const about = {
  name: "Linear",
  batches: false,
  retries:
    "3 retries, after 1 minute, 1 hour and 6 hours, unless the answer is 200. Then the webhook may be disabled.",
  answerWithin: "5 s",
  secret: "The signing secret of the webhook, used as text.",
  signs: "The body, with the time in it. Not the headers.",
  idIsUnique: "Linear-Delivery is a UUID for each payload.",
  checked: {
    title: "Webhooks (Linear developers); @linear/sdk, webhooks/client.ts",
    date: "2026-11",
    with: "documentation",
    byHand: "@linear/sdk, webhooks/client.ts",
    delivery: {
      page: "Webhooks (Linear developers)",
      date: "2026-11-17",
      notSeen: "that the webhook may be disabled",
    },
  },
} as const satisfies PresetAbout;
