import { msgraph } from "../../../../src/webhooks/presets/msgraph.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import type { PresetSample } from "../../../support/presets/preset-sample.js";

const created = {
  id: "lsgTZMr9KwAAA",
  subscriptionId: "f37536ac-a308-4bc7-8239-b2b51cd2ff24",
  clientState: "CLIENT-STATE",
  changeType: "created",
  tenantId: "84bd8158-6d4d-4958-8b9f-9d6445542f95",
  resource: "users/e7d7c5e7/messages/AAMkAD",
};
const updated = { ...created, id: "lsgTZMr9KwAAB", changeType: "updated" };
const removed = { ...created, id: "lsgTZMr9KwAAC", changeType: "deleted", tenantId: "another-tenant" };

const bodyOf = (...value: readonly object[]): string => JSON.stringify({ value });

const storedOf = ({ subscriptionId, id, changeType, tenantId }: typeof created) => ({
  messageId: `${subscriptionId}/${id}`,
  topic: changeType,
  tenant: tenantId,
});

const sample: PresetSample = {
  secret: "secretClientState",
  otherSecret: "otherClientState!",
  sign: ({ body }, { secret }) => ({ body: body.replaceAll("CLIENT-STATE", secret) }),
  event: { body: bodyOf(created, updated) },
  otherEvent: { body: bodyOf({ ...created, id: "3" }) },
  stored: [storedOf(created), storedOf(updated)],
  tamper: "unnoticed",
  answer: { status: 202, text: "" },
  handshakes: [
    {
      title: "validation token",
      body: "",
      query: "validationToken=Validation%3A+Testing+client",
      headers: { "content-type": "text/plain; charset=utf-8" },
      answer: { text: "Validation: Testing client", headers: { "content-type": "text/plain" } },
    },
  ],
};
describePreset("msgraph", msgraph, {
  ...sample,
  cutAgain: {
    batches: [{ body: bodyOf(updated, removed) }],
    stored: [storedOf(created), storedOf(updated), storedOf(removed)],
  },
});

/** Two changes of one message look alike. */
const { id: _, ...bare } = updated;
describePreset("msgraph, a notification without an id", msgraph, {
  ...sample,
  event: { body: bodyOf(bare) },
  otherEvent: { body: bodyOf({ ...bare, resource: "users/e7d7c5e7/messages/AAMkAE" }) },
  stored: [{ messageId: /^[0-9a-f-]{36}$/, topic: "updated", tenant: created.tenantId }],
  neverDuplicate: true,
  handshakes: [],
});
