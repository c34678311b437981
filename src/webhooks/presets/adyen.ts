import type { WebhookScheme } from "../schemes/scheme.js";

const psp = "{item:NotificationRequestItem.pspReference}";
/** Empty for the first event of a payment. */
const original = "{item:NotificationRequestItem.originalReference?}";
const account = "{item:NotificationRequestItem.merchantAccountCode}";
/** Empty for reports. */
const reference = "{item:NotificationRequestItem.merchantReference?}";
const eventCode = "{item:NotificationRequestItem.eventCode}";
const success = "{item:NotificationRequestItem.success}";
const amount = "{item:NotificationRequestItem.amount.value}:{item:NotificationRequestItem.amount.currency}";

export const adyen = {
  verify: {
    kind: "signature",
    signatureIn: "{item:NotificationRequestItem.additionalData.hmacSignature}",
    encoding: "base64",
    secretEncoding: "hex",
    signed: `${psp}:${original}:${account}:${reference}:${amount}:${eventCode}:${success}`,
    signsPart: true,
  },
  split: "{json:notificationItems}",
  messageId: `${psp}/${eventCode}/${success}`,
  topic: eventCode,
  tenant: account,
  contentTypes: ["application/json"],
  answer: { contentType: "text/plain", body: "[accepted]" },
} as const satisfies WebhookScheme;
