import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

/** For webhooks with a secret, which an administrator registers. Those of a Connect app are signed with a JWT. */
export const jira = {
  verify: { kind: "signature", header: "x-hub-signature", prefix: "sha256=" },
  messageId: "{header:x-atlassian-webhook-identifier}",
  topic: "{json:webhookEvent}",
  keepHeaders: ["x-atlassian-webhook-identifier", "x-atlassian-webhook-retry", "x-atlassian-webhook-flow"],
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;

export const about = {
  name: "Jira",
  batches: false,
  retries: "Up to 5 times, after 408, 409, 425, 429, 5xx, or no answer. A retry may come 30 minutes later.",
  answerWithin: undefined,
  secret: "The secret of the webhook, used as text.",
  signs: "The body. Not the headers, and so not the id.",
  idIsUnique: "X-Atlassian-Webhook-Identifier is unique in a site, and a retry keeps it.",
  checked: {
    title: "Jira Cloud platform: Webhooks",
    date: "2026-11",
    with: "documentation",
    delivery: {
      page: "New Jira Cloud webhook retry policy (Atlassian, in its developer community)",
      date: "2026-11-17",
      notSeen: "the number of retries",
    },
  },
} as const satisfies PresetAbout;
