import "@shopify/shopify-api/adapters/web-api";
import { createSHA256HMAC, HashFormat } from "@shopify/shopify-api/runtime";
import { shopify } from "../../../../src/webhooks/presets/shopify.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { unsigned } from "../../../support/presets/preset-sample.js";

const body = '{"id":820982911946154500,"email":"jon@example.com"}';

for (const prefix of ["x-", ""]) {
  const headers = {
    [`${prefix}shopify-webhook-id`]: "b54557e4",
    [`${prefix}shopify-topic`]: "orders/create",
  };
  describePreset(`shopify, headers ${prefix}shopify-…`, shopify, {
    secret: "shpss_hush",
    otherSecret: "shpss_other",
    sign: async ({ body: text }, { secret }) => ({
      headers: { [`${prefix}shopify-hmac-sha256`]: await createSHA256HMAC(secret, text, HashFormat.Base64) },
    }),
    event: { headers, body },
    otherEvent: { headers: { ...headers, [`${prefix}shopify-webhook-id`]: "b54557e5" }, body },
    stored: [{ messageId: unsigned("b54557e4"), topic: "orders/create" }],
  });
}
