import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const workos = {
  verify: {
    kind: "signature",
    header: "workos-signature",
    separator: ",",
    prefix: "v1=",
    signed: "{timestamp}.{body}",
    timestamp: { header: "workos-signature", separator: ",", prefix: "t=", unit: "ms" },
  },
  messageId: "{json:id}",
  topic: "{json:event}",
  tenant: "{json:data.organization_id}",
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;

export const about = {
  name: "WorkOS",
  batches: false,
  retries: "Up to 6 retries within 3 days, with growing intervals, after each answer but 2xx.",
  answerWithin: undefined,
  secret: "The secret of the webhook endpoint, used as text.",
  signs: "Time and body.",
  idIsUnique: "The event's id.",
  checked: {
    title: "Sync data with webhooks (WorkOS docs); workos-node, signature-provider.ts",
    date: "2026-11",
    with: "documentation",
    byHand: "workos-node, signature-provider.ts",
    delivery: { page: "Webhooks (WorkOS docs), as others sum it up", date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
