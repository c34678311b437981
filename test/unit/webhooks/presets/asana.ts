import { asana } from "../../../../src/webhooks/presets/asana.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";
import type { ProviderEvent } from "../../../support/presets/preset-sample.js";

const batch = (...tasks: readonly string[]): ProviderEvent => ({
  body: JSON.stringify({
    events: tasks.map((gid) => ({
      action: "changed",
      created_at: "2029-12-31T23:59:59.000Z",
      resource: { gid, resource_type: "task" },
    })),
  }),
});
const stored = { messageId: /^body-sha256:/, topic: "task.changed" };

describePreset("asana", asana, {
  secret: "b537207f20cbfa02357cf448134da559",
  otherSecret: "c537207f20cbfa02357cf448134da559",
  source: { verifyToken: "a-token-of-ours" },
  sign: ({ body }, { secret }) => ({ headers: { "x-hook-signature": hmac(secret, body) } }),
  event: batch("1", "2"),
  otherEvent: batch("4"),
  stored: [stored, stored],
  cutAgain: { batches: [batch("2"), batch("1", "3")], stored: [stored, stored, stored] },
  handshakes: [
    {
      title: "X-Hook-Secret",
      query: "token=a-token-of-ours",
      headers: { "x-hook-secret": "b537207f20cbfa02357cf448134da559" },
      body: "",
      answer: { headers: { "x-hook-secret": "b537207f20cbfa02357cf448134da559" } },
    },
    { title: "heartbeat", signed: true, ...batch(), answer: {} },
  ],
});
