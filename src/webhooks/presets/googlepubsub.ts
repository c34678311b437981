import type { WebhookScheme } from "../schemes/scheme.js";

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
