import type { WebhookScheme } from "../schemes/scheme.js";

export const trello = {
  verify: {
    kind: "signature",
    header: "x-trello-webhook",
    algorithm: "sha1",
    encoding: "base64",
    signed: "{body}{url}",
  },
  // the webhooks of a board and of its cards report the same action
  messageId: "{json:model.id}/{json:action.id}",
  topic: "{json:action.type}",
  contentTypes: ["application/json"],
  handshakes: [{ method: "HEAD", when: {}, unsigned: true, answer: {} }],
} as const satisfies WebhookScheme;
