import type { WebhookScheme } from "../schemes/scheme.js";

/** For the secret token, which every GitLab has. A webhook with a signing token needs the preset `standard`. */
export const gitlab = {
  verify: { kind: "token", token: "{header:x-gitlab-token}" },
  // not X-Gitlab-Event-UUID: events that a webhook's receiver caused have that of the first event
  messageId: "{header:idempotency-key}",
  topic: ["{json:object_kind}", "{json:event_name}"],
  keepHeaders: ["x-gitlab-event", "x-gitlab-instance", "x-gitlab-webhook-uuid", "x-gitlab-event-uuid"],
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;
