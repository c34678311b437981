import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const googlepubsub = {
  verify: {
    kind: "jwt",
    token: "{header:authorization}",
    prefix: "Bearer ",
    jwksUrl: "https://www.googleapis.com/oauth2/v3/certs",
    algorithms: ["RS256"],
    issuer: ["https://accounts.google.com", "accounts.google.com"],
    // anybody with a service account can have a token for any audience, so the account must be the right one, too
    secretClaims: ["aud", "email"],
  },
  messageId: [
    "{json:subscription}/{json:message.messageId}",
    "{header:x-goog-pubsub-subscription-name}/{header:x-goog-pubsub-message-id}",
  ],
  topic: ["{json:subscription}", "{header:x-goog-pubsub-subscription-name}"],
  keepHeaders: ["x-goog-pubsub-message-id", "x-goog-pubsub-subscription-name"],
  volatileFields: ["deliveryAttempt"],
} as const satisfies WebhookScheme;

export const about = {
  name: "Google Cloud Pub/Sub push",
  batches: false,
  retries:
    "Retries until the message expires (7 days by default), after each answer but 102, 200, 201, 202 and 204. The subscription's acknowledgement deadline is how long it waits: 10 s by default, at most 600 s.",
  answerWithin: "10 s",
  secret:
    "Two texts, both needed: the audience of the push subscription and the e-mail address of its service account.",
  signs: "Nothing of the body. The token proves who sends, for an hour.",
  idIsUnique: "messageId is unique within a topic, and the same in each retry.",
  checked: {
    title: "Authentication for push subscriptions; Push subscriptions (Google Cloud)",
    date: "2026-11",
    with: "documentation",
    delivery: {
      page: "Push subscriptions (Google Cloud), as others quote it",
      date: "2026-11-17",
      notSeen: "how long it retries",
    },
  },
} as const satisfies PresetAbout;
