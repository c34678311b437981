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
  // a list of CloudEvents, from an event stream's sink
  split: "{json:}",
  // not MessageSid or CallSid, which are the same for every change of status
  messageId: ["{item:id}", "{header:i-twilio-idempotency-token}"],
  topic: [
    "{item:type}",
    "message.{form:MessageStatus}",
    "message.{form:SmsStatus}",
    "recording.{form:RecordingStatus}",
    "{form:StatusCallbackEvent}", // conference-start, participant-join, room-created
    "call.{form:CallStatus}",
    "{form:EventType}", // conversations: onMessageAdded; TaskRouter: task.created
  ],
  tenant: ["{form:AccountSid}", "{item:data.accountSid}"],
  methods: ["POST", "GET"],
  answer: { contentType: "text/xml", body: "<Response/>" },
} as const satisfies WebhookScheme;

export const about = {
  name: "Twilio",
  batches: true,
  retries:
    "Once, only if it cannot connect. More when the URL's fragment asks for it: `#rc=5&rp=all` retries 5 times after 4xx, 5xx and time-outs, all within 15 s.",
  answerWithin: "15 s",
  secret: "The account's auth token, used as text.",
  signs:
    "The URL and the form's fields, or the URL with the digest of the body. Not the headers, and so not the id.",
  idIsUnique:
    "I-Twilio-Idempotency-Token is unique for each callback, and a retry keeps it. Events of a stream have an id.",
  checked: {
    title: "Webhooks security; Connection overrides",
    date: "2026-11",
    with: "sdk",
    delivery: { page: "Webhooks: Connection overrides (Twilio docs)", date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
