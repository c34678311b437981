import type { WebhookScheme } from "../schemes/scheme.js";

/** For webhooks with a secret, which an administrator registers. Those of a Connect app are signed with a JWT. */
export const jira = {
  verify: { kind: "signature", header: "x-hub-signature", prefix: "sha256=" },
  messageId: "{header:x-atlassian-webhook-identifier}",
  topic: "{json:webhookEvent}",
  keepHeaders: ["x-atlassian-webhook-identifier", "x-atlassian-webhook-retry", "x-atlassian-webhook-flow"],
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;
