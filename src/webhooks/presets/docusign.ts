import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const docusign = {
  verify: {
    kind: "signature",
    // one for each active key
    headers: [
      "x-docusign-signature-1",
      "x-docusign-signature-2",
      "x-docusign-signature-3",
      "x-docusign-signature-4",
      "x-docusign-signature-5",
    ],
    encoding: "base64",
  },
  messageId: "{hash}",
  topic: "{json:event}",
  tenant: "{json:data.accountId}",
  volatileFields: ["retryCount"],
} as const satisfies WebhookScheme;

export const about = {
  name: "Docusign Connect",
  batches: false,
  retries:
    "Retries with growing intervals for days, if Require Acknowledgement is on. Without it every answer counts as received.",
  answerWithin: "100 s",
  secret: "An HMAC key of Connect, used as text.",
  signs: "The body.",
  idIsUnique:
    "There is none. The content without retryCount identifies the event, which has its time (generatedDateTime).",
  checked: {
    title: "How to validate an HMAC signature; Connect event messages (Docusign developers)",
    date: "2026-11",
    with: "documentation",
    delivery: { date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
