import type { WebhookScheme } from "../schemes/scheme.js";

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
