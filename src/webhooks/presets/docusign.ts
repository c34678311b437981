import type { WebhookScheme } from "../schemes/scheme.js";

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
