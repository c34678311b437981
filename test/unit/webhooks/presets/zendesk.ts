import { zendesk } from "../../../../src/webhooks/presets/zendesk.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";
import { unsigned } from "../../../support/presets/preset-sample.js";

const event = {
  id: "2b24ef10-19df-4fd2-9c5e-1c7a0c9d7a2b",
  type: "zen:event-type:ticket.created",
  account_id: 22129848,
  subject: "zen:ticket:5158",
};
const invocation = (id: string) => ({ "x-zendesk-webhook-invocation-id": id });

describePreset("zendesk", zendesk, {
  secret: "dGhpc19zZWNyZXRfaXNfZm9yX3Rlc3Rpbmdfb25seQ==",
  otherSecret: "b3RoZXJfc2VjcmV0X2lzX2Zvcl90ZXN0aW5nX29ubHk=",
  sign: ({ body }, { at, secret }) => ({
    headers: {
      "x-zendesk-webhook-signature": hmac(secret, at.toISOString() + body, "base64"),
      "x-zendesk-webhook-signature-timestamp": at.toISOString(),
    },
  }),
  event: { body: JSON.stringify(event), headers: invocation("01HBJH6GZ4EFD1NEQZCDC8ARGB") },
  otherEvent: { body: JSON.stringify(event), headers: invocation("01HBJH6GZ4EFD1NEQZCDC8ARGC") },
  stored: [
    {
      messageId: unsigned("01HBJH6GZ4EFD1NEQZCDC8ARGB"),
      topic: "zen:event-type:ticket.created",
      tenant: "22129848",
    },
  ],
});
