import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

/** For the secret token, which every GitLab has. A webhook with a signing token needs the preset `standard`. */
export const gitlab = {
  verify: { kind: "token", token: "{header:x-gitlab-token}" },
  // not X-Gitlab-Event-UUID: events that a webhook's receiver caused have that of the first event
  messageId: "{header:idempotency-key}",
  topic: ["{json:object_kind}", "{json:event_name}"],
  keepHeaders: ["x-gitlab-event", "x-gitlab-instance", "x-gitlab-webhook-uuid", "x-gitlab-event-uuid"],
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;

export const about = {
  name: "GitLab",
  batches: false,
  retries:
    "Never by itself. Requests of the last days can be resent by hand or by the API. After 4 failures in a row the webhook is disabled for a time, after 40 for good.",
  answerWithin: "10 s",
  secret:
    "The webhook's secret token, sent as it is. For a signing token (whsec_…) use the preset standard with the topic `{json:object_kind}`.",
  signs: "Nothing: the token alone proves the sender.",
  idIsUnique:
    "Idempotency-Key is unique for each delivery, and a retry keeps it. Before GitLab 17.4 it is the hash of the body.",
  checked: {
    title: "Webhooks: delivery headers",
    date: "2026-11",
    with: "documentation",
    delivery: {
      page: "Webhooks: auto-disabled webhooks (GitLab docs), as others quote it",
      date: "2026-11-17",
      notSeen: "that requests can be resent",
    },
  },
} as const satisfies PresetAbout;
