import type { WebhookScheme } from "../schemes/scheme.js";

export const mandrill = {
  verify: {
    kind: "signature",
    header: "x-mandrill-signature",
    algorithm: "sha1",
    encoding: "base64",
    signed: "{url}{sortedForm}",
  },
  split: "{form:mandrill_events}",
  // no id: `_id` is the message's, and several events of a message may have the same second
  topic: ["{item:event}", "{item:type}"],
  contentTypes: ["application/x-www-form-urlencoded"],
  handshakes: [{ method: "HEAD", when: {}, unsigned: true, answer: {} }],
} as const satisfies WebhookScheme;
