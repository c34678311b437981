import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const twilio = {
  verify: {
    kind: "signature",
    header: "x-twilio-signature",
    algorithm: "sha1",
    encoding: "base64",
    signed: "{url}{sortedForm}",
    bodyDigestQuery: "bodySHA256",
  },
  // not MessageSid or CallSid, which are the same for every change of status
  messageId: "{header:i-twilio-idempotency-token}",
  topic: [
    "message.{form:MessageStatus}",
    "message.{form:SmsStatus}",
    "call.{form:CallStatus}",
    "{json:0.type}",
  ],
  tenant: "{form:AccountSid}",
  answer: { contentType: "text/xml", body: "<Response/>" },
} as const satisfies WebhookScheme;

export const about = {
  name: "Twilio",
  batches: false,
  retries: "None, unless the URL's fragment asks for them (#rc=…).",
  answerWithin: "15 s",
  secret: "The account's auth token, used as text.",
  signs: "The URL and the form's fields, or the URL with the body's digest.",
  idIsUnique: "I-Twilio-Idempotency-Token identifies the request, and a retry keeps it.",
  checked: { title: "Webhooks security", date: "2026-11", with: "documentation" },
} as const satisfies PresetAbout;
