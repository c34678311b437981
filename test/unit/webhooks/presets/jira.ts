import { jira } from "../../../../src/webhooks/presets/jira.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";
import { unsigned } from "../../../support/presets/preset-sample.js";

const headers = { "x-atlassian-webhook-identifier": "5f1d" };
const body = '{"timestamp":1893456000000,"webhookEvent":"jira:issue_created","issue":{"id":"10002"}}';

describePreset("jira", jira, {
  secret: "jira-secret",
  otherSecret: "another-secret",
  sign: ({ body: text }, { secret }) => ({ headers: { "x-hub-signature": `sha256=${hmac(secret, text)}` } }),
  event: { headers, body },
  retry: { headers: { ...headers, "x-atlassian-webhook-retry": "1" }, body },
  otherEvent: { headers: { "x-atlassian-webhook-identifier": "5f1e" }, body },
  stored: [{ messageId: unsigned("5f1d"), topic: "jira:issue_created" }],
});
