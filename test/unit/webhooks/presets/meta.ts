import { meta } from "../../../../src/webhooks/presets/meta.js";
import { whatsapp } from "../../../../src/webhooks/presets/whatsapp.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";
import type { PresetSample, ProviderEvent } from "../../../support/presets/preset-sample.js";

const shared = {
  secret: "meta-app-secret",
  otherSecret: "another-secret",
  source: { verifyToken: "meatyhamhock" },
  sign: ({ body }, { secret }) => ({ headers: { "x-hub-signature-256": `sha256=${hmac(secret, body)}` } }),
  handshakes: [
    {
      title: "subscription",
      method: "GET",
      query: "hub.mode=subscribe&hub.verify_token=meatyhamhock&hub.challenge=1158201444",
      body: "",
      answer: { text: "1158201444" },
    },
    {
      title: "subscription with another token",
      method: "GET",
      query: "hub.mode=subscribe&hub.verify_token=other&hub.challenge=1158201444",
      body: "",
      answer: { status: 401 },
    },
  ],
} satisfies Partial<PresetSample>;

const entry = (page: string) => ({
  id: page,
  time: 1893456000,
  changes: [{ field: "feed", value: { post_id: `${page}_1` } }],
});
const pages = (...ids: readonly string[]): ProviderEvent => ({
  body: JSON.stringify({ object: "page", entry: ids.map(entry) }),
});
const stored = (tenant: string) => ({
  messageId: /^body-sha256:/,
  topic: "page",
  tenant,
  payload: JSON.stringify(entry(tenant)),
});
describePreset("meta", meta, {
  ...shared,
  event: pages("p1", "p2"),
  otherEvent: pages("p4"),
  stored: ["p1", "p2"].map(stored),
  cutAgain: { batches: [pages("p2"), pages("p1", "p3")], stored: ["p1", "p2", "p3"].map(stored) },
});

const change = (phone: string) => ({
  field: "messages",
  value: { metadata: { phone_number_id: phone }, messages: [{ id: `wamid.${phone}` }] },
});
const account = (...phones: readonly string[]) => ({ id: "waba", changes: phones.map(change) });
const chats = (...entries: readonly object[]): ProviderEvent => ({
  body: JSON.stringify({ object: "whatsapp_business_account", entry: entries }),
});
const storedChat = (tenant: string) => ({ messageId: /^body-sha256:/, topic: "messages", tenant });
describePreset("whatsapp", whatsapp, {
  ...shared,
  event: chats(account("1", "2")),
  otherEvent: chats(account("4")),
  stored: ["1", "2"].map(storedChat),
  cutAgain: {
    batches: [chats(account("1"), account("2", "3"))],
    stored: ["1", "2", "3"].map(storedChat),
  },
});
