import { typeform } from "../../../../src/webhooks/presets/typeform.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";

const event = { event_id: "LtWXD3crgy", event_type: "form_response", form_response: { form_id: "lT4Z3j" } };

describePreset("typeform", typeform, {
  secret: "abc123-a-secret-of-mine",
  otherSecret: "abc124-a-secret-of-mine",
  sign: ({ body }, { secret }) => ({
    headers: { "typeform-signature": `sha256=${hmac(secret, body, "base64")}` },
  }),
  event: { body: JSON.stringify(event) },
  otherEvent: { body: JSON.stringify({ ...event, event_id: "LtWXD3crgz" }) },
  stored: [{ messageId: "LtWXD3crgy", topic: "form_response" }],
});
