import { docusign } from "../../../../src/webhooks/presets/docusign.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";

const event = {
  event: "envelope-sent",
  apiVersion: "v2.1",
  configurationId: 10177142,
  generatedDateTime: "2030-01-01T00:00:00.0000000Z",
  data: {
    accountId: "7f09961a-a22e-4ebb-89fa-d1d5a6ed1c07",
    envelopeId: "7f09961a-42e2-4ebb-89fa-d1d5a6ed1c08",
  },
};

describePreset("docusign", docusign, {
  secret: "DaFlFm8hW5gJ7mH0z4Lw2g==",
  otherSecret: "EaFlFm8hW5gJ7mH0z4Lw2g==",
  sign: ({ body }, { secret }) => ({
    headers: {
      "x-docusign-signature-1": hmac("another active key", body, "base64"),
      "x-docusign-signature-2": hmac(secret, body, "base64"),
    },
  }),
  event: { body: JSON.stringify({ ...event, retryCount: 0 }) },
  retry: { body: JSON.stringify({ ...event, retryCount: 1 }) },
  otherEvent: { body: JSON.stringify({ ...event, event: "envelope-delivered", retryCount: 0 }) },
  stored: [{ messageId: /[0-9a-f]{64}$/, topic: "envelope-sent", tenant: event.data.accountId }],
});
