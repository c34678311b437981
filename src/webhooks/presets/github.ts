import type { WebhookScheme } from "../schemes/scheme.js";

export const github = {
  verify: { kind: "signature", header: "x-hub-signature-256", prefix: "sha256=" },
  // all hooks that an event triggers get the same delivery id
  messageId: ["{header:x-github-hook-id}/{header:x-github-delivery}", "{header:x-github-delivery}"],
  topic: "{header:x-github-event}",
  tenant: "{json:installation.id}",
  keepHeaders: ["x-github-event", "x-github-delivery", "x-github-hook-id"],
  contentTypes: ["application/json", "application/x-www-form-urlencoded"],
} as const satisfies WebhookScheme;
