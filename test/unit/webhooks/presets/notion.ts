import { notion } from "../../../../src/webhooks/presets/notion.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";

const event = {
  id: "367cba44-b6f3-4c92-81e7-6a2e9659efd4",
  type: "page.created",
  workspace_id: "13950b26-c203-4f3b-b97d-93ec06319565",
  entity: { id: "153104cd-477e-809d-8dc4-ff2d96ae3090", type: "page" },
};

describePreset("notion", notion, {
  secret: "secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl",
  otherSecret: "secret_0000000000000000000000000000000000000000000",
  sign: ({ body }, { secret }) => ({ headers: { "x-notion-signature": `sha256=${hmac(secret, body)}` } }),
  event: { body: JSON.stringify({ ...event, attempt_number: 1 }) },
  retry: { body: JSON.stringify({ ...event, attempt_number: 2 }) },
  otherEvent: { body: JSON.stringify({ ...event, id: "56c3e00c-4f0c-4566-9676-4b058a50a03d" }) },
  stored: [{ messageId: event.id, topic: "page.created", tenant: event.workspace_id }],
});
