import twilioSdk from "twilio";
import { twilio } from "../../../../src/webhooks/presets/twilio.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { type PresetSample, type ProviderEvent, unsigned } from "../../../support/presets/preset-sample.js";

const { getExpectedTwilioSignature, getExpectedBodyHash } = twilioSdk;

const callback = (fields: Record<string, string>, token = "d5a8b1c2"): ProviderEvent => ({
  headers: {
    "content-type": "application/x-www-form-urlencoded; charset=utf-8",
    "i-twilio-idempotency-token": token,
  },
  query: "foo=1&bar=2",
  body: new URLSearchParams({ AccountSid: "AC1", ...fields }).toString(),
});

const sample = (fields: Record<string, string>, topic: string): PresetSample => ({
  secret: "12345",
  otherSecret: "54321",
  sign: ({ body, query }, { url, secret }) => {
    const fieldsOf = Object.fromEntries(new URLSearchParams(body));
    const signature = getExpectedTwilioSignature(secret, `${url}?${query}`, fieldsOf);
    return { headers: { "x-twilio-signature": signature } };
  },
  event: callback(fields),
  otherEvent: callback(fields, "d5a8b1c3"),
  stored: [{ messageId: unsigned("d5a8b1c2"), topic, tenant: "AC1" }],
  answer: { text: "<Response/>" },
});

describePreset(
  "twilio, a message",
  twilio,
  sample({ MessageSid: "SM1", MessageStatus: "delivered", EventType: "DELIVERED" }, "message.delivered"),
);
describePreset("twilio, a call", twilio, sample({ CallSid: "CA1", CallStatus: "ringing" }, "call.ringing"));
describePreset(
  "twilio, a recording",
  twilio,
  sample({ RecordingSid: "RE1", CallSid: "CA1", RecordingStatus: "completed" }, "recording.completed"),
);
describePreset(
  "twilio, a conference",
  twilio,
  sample({ ConferenceSid: "CF1", StatusCallbackEvent: "participant-join" }, "participant-join"),
);
describePreset(
  "twilio, a conversation",
  twilio,
  sample({ ConversationSid: "CH1", EventType: "onMessageAdded" }, "onMessageAdded"),
);

const ofClient = (token: string): ProviderEvent => ({
  ...callback({ CallSid: "CA1", CallStatus: "ringing" }, token),
  query: "client=O'Brien",
});
describePreset("twilio, an apostrophe in the query", twilio, {
  ...sample({}, "call.ringing"),
  event: ofClient("d5a8b1c2"),
  otherEvent: ofClient("d5a8b1c3"),
});

const get = (token: string): ProviderEvent => ({
  method: "GET",
  headers: { "i-twilio-idempotency-token": token },
  query: "AccountSid=AC1&CallStatus=busy&Name=O'Brien",
  body: "",
});
describePreset("twilio by GET, with an apostrophe in the query", twilio, {
  ...sample({}, "call.busy"),
  event: get("d5a8b1c2"),
  otherEvent: get("d5a8b1c3"),
  sign: ({ query }, { url, secret }) => ({
    headers: { "x-twilio-signature": getExpectedTwilioSignature(secret, `${url}?${query}`, {}) },
  }),
  tamper: (sent) => ({ ...sent, query: `${sent.query}&CallStatus=completed` }),
  ours: false, // signWebhook makes POST requests
});

const streamed = (...ids: readonly string[]): ProviderEvent => ({
  body: JSON.stringify(
    ids.map((id) => ({
      specversion: "1.0",
      type: "com.twilio.messaging.message.sent",
      id,
      source: "/Messages",
    })),
  ),
});
const storedEvent = (messageId: string) => ({ messageId, topic: "com.twilio.messaging.message.sent" });
describePreset("twilio, an event stream", twilio, {
  ...sample({}, ""),
  sign: ({ body }, { url, secret }) => {
    const query = `bodySHA256=${getExpectedBodyHash(body)}`;
    return {
      query,
      headers: { "x-twilio-signature": getExpectedTwilioSignature(secret, `${url}?${query}`, {}) },
    };
  },
  event: streamed("EZ1", "EZ2"),
  otherEvent: streamed("EZ4"),
  stored: ["EZ1", "EZ2"].map(storedEvent),
  cutAgain: {
    batches: [streamed("EZ1"), streamed("EZ2", "EZ3")],
    stored: ["EZ1", "EZ2", "EZ3"].map(storedEvent),
  },
});
