import { okta } from "../../../../src/webhooks/presets/okta.js";
import { describePreset } from "../../../support/presets/describe-preset.js";

const created = { uuid: "b5a188b9-5ece-4636-b041-482ffda96311", eventType: "user.lifecycle.create" };
const deleted = { uuid: "b5a188b9-5ece-4636-b041-482ffda96312", eventType: "user.lifecycle.delete" };
const activated = { uuid: "b5a188b9-5ece-4636-b041-482ffda96313", eventType: "user.lifecycle.activate" };

const bodyOf = (...events: readonly object[]): string =>
  JSON.stringify({
    eventType: "com.okta.event_hook",
    source: "https://example.okta.com/api/v1/eventHooks/who8vt36qfNpCGz9H1e6",
    data: { events },
  });

const storedOf = ({ uuid, eventType }: typeof created) => ({ messageId: uuid, topic: eventType });

describePreset("okta", okta, {
  secret: "a-token-of-your-own-123",
  otherSecret: "a-token-of-another-1234",
  sign: (_event, { secret }) => ({ headers: { authorization: secret } }),
  event: { body: bodyOf(created, deleted) },
  otherEvent: { body: bodyOf(activated) },
  stored: [storedOf(created), storedOf(deleted)],
  cutAgain: {
    batches: [{ body: bodyOf(deleted, activated) }, { body: bodyOf(created) }],
    stored: [storedOf(created), storedOf(deleted), storedOf(activated)],
  },
  tamper: "unnoticed",
  answer: { text: "" },
  handshakes: [
    {
      title: "verification",
      method: "GET",
      body: "",
      headers: {
        "x-okta-verification-challenge": "my verification challenge",
        authorization: "a-token-of-your-own-123",
      },
      answer: { json: { verification: "my verification challenge" } },
    },
  ],
});
