import type { WebhookScheme } from "../schemes/scheme.js";

export const mollieclassic = {
  verify: { kind: "token", token: "{query:token}" },
  // the body is the id of a payment, which is the same for each change of its status
  messageId: "{received}",
  contentTypes: ["application/x-www-form-urlencoded"],
} as const satisfies WebhookScheme;
