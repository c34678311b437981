import type { Handshake, WebhookScheme } from "../schemes/scheme.js";

/** Its header is the secret of the new webhook, which the answer to the call that creates the webhook has, too. */
const hookSecret = {
  method: "POST",
  when: { "{header:x-hook-secret}": true },
  verifyToken: "{query:token}",
  answer: { headers: { "x-hook-secret": "{header:x-hook-secret}" } },
} as const satisfies Handshake;

export const asana = {
  verify: { kind: "signature", header: "x-hook-signature" },
  split: "{json:events}",
  topic: ["{item:resource.resource_type}.{item:action}", "{item:action}"],
  contentTypes: ["application/json"],
  handshakes: [hookSecret],
} as const satisfies WebhookScheme;
