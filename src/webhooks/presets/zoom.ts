import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

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

export const about = {
  name: "Zoom",
  batches: false,
  retries: "3 times: after 5 minutes, 20 minutes more, 60 minutes more, after anything but 2xx.",
  answerWithin: "3 s",
  secret: "The app's secret token, used as text.",
  signs: "Timestamp and body. The time may be 2 hours old, for retries.",
  idIsUnique: "Zoom gives no id: the hash of the body, which has the event's time in milliseconds.",
  checked: {
    title: "Using webhooks",
    date: "2026-11",
    with: "documentation",
    delivery: { page: "Resolving webhook delays", date: "2026-11" },
  },
} as const satisfies PresetAbout;
