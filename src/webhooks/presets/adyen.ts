import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

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

export const about = {
  name: "Adyen",
  batches: true,
  retries:
    "3 retries within 27 s, then for 30 days from a queue: after 2, 5, 10, 15 and 30 minutes, 1, 2, 4 and 8 hours. The other events of the endpoint wait.",
  answerWithin: "10 s",
  secret: "The HMAC key of the webhook: 64 hexadecimal digits.",
  signs:
    "Of each item: its references, account, amount, eventCode and success. Nothing else of it, such as reason and additionalData.",
  idIsUnique: "Adyen repeats an event with the same pspReference, eventCode and success.",
  checked: {
    title:
      "Verify HMAC signatures; Handle webhook events (Adyen docs); adyen-node-api-library, hmacValidator.spec.ts",
    date: "2026-11",
    with: "vector",
    delivery: { page: "Troubleshoot webhooks (Adyen docs)", date: "2026-11-17", notSeen: "the 10 s" },
  },
} as const satisfies PresetAbout;
