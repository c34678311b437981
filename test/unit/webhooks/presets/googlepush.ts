import { googlepush } from "../../../../src/webhooks/presets/googlepush.js";
import { describePreset } from "../../../support/presets/describe-preset.js";

const headers = (number: string, state: string) => ({
  "content-type": "application/json; utf-8",
  "x-goog-channel-id": "4ba78bf0-6a47-11e2-bcfd-0800200c9a66",
  "x-goog-message-number": number,
  "x-goog-resource-state": state,
  "x-goog-resource-id": "ret08u3rv24htgh289g",
});

describePreset("googlepush", googlepush, {
  secret: "target=myApp-myCalendar",
  otherSecret: "target=myApp-otherOne!!",
  sign: (_event, { secret }) => ({ headers: { "x-goog-channel-token": secret } }),
  event: { body: "", headers: headers("10", "exists") },
  otherEvent: { body: "", headers: headers("11", "exists") },
  stored: [{ messageId: "4ba78bf0-6a47-11e2-bcfd-0800200c9a66/10", topic: "exists", payload: "" }],
  tamper: "unnoticed",
  handshakes: [
    { title: "sync", body: "", headers: headers("1", "sync"), signed: true, answer: { text: "" } },
  ],
});
