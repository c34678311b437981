import type { Handshake, WebhookScheme } from "../schemes/scheme.js";

/**
 * The request with which Notion sends its secret, when the subscription is made. It is not signed, so it counts only at
 * an address with a token of your own, `?token=…`: the source's `verifyToken`. The message has the secret.
 */
export const notionVerification = {
  method: "POST",
  when: { "{json:verification_token}": true },
  verifyToken: "{query:token}",
  store: true,
  answer: {},
} as const satisfies Handshake;

export const notion = {
  verify: { kind: "signature", header: "x-notion-signature", prefix: "sha256=" },
  messageId: "{json:id}",
  topic: "{json:type}",
  tenant: "{json:workspace_id}",
  volatileFields: ["attempt_number"],
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;
