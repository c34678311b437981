import type { Handshake, WebhookScheme } from "../schemes/scheme.js";

const urlValidation = {
  method: "POST",
  when: { "{json:event}": "endpoint.url_validation" },
  answer: {
    json: { plainToken: "{json:payload.plainToken}", encryptedToken: "{hmac}" },
    hmac: "{json:payload.plainToken}",
  },
} as const satisfies Handshake;

export const zoom = {
  verify: {
    kind: "signature",
    header: "x-zm-signature",
    prefix: "v0=",
    signed: "v0:{timestamp}:{body}",
    // nothing says that a retry, up to 85 minutes later, is signed with a new time
    timestamp: { header: "x-zm-request-timestamp", maxAgeMs: 2 * 3_600_000 },
  },
  // no id: the body has the event's time in milliseconds
  topic: "{json:event}",
  tenant: "{json:payload.account_id}",
  contentTypes: ["application/json"],
  handshakes: [urlValidation],
  receiveMs: 2_000,
} as const satisfies WebhookScheme;
