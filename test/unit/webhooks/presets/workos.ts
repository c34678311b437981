import { workos } from "../../../../src/webhooks/presets/workos.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";

const event = {
  id: "event_04FKJ843CVE8F7BXQSPFH0M53V",
  event: "dsync.user.created",
  data: {
    id: "directory_user_01E1X1B89NH8Z3SDFJR4H7RGX7",
    organization_id: "org_01EZTR6WYX1A0DSE2CYMGXQ24Y",
  },
};

describePreset("workos", workos, {
  secret: "1Cd7fJq4mLz0XcvR9bQyTn2W",
  otherSecret: "2Cd7fJq4mLz0XcvR9bQyTn2W",
  sign: ({ body }, { at, secret }) => {
    const t = at.getTime();
    return { headers: { "workos-signature": `t=${t}, v1=${hmac(secret, `${t}.${body}`)}` } };
  },
  event: { body: JSON.stringify(event) },
  otherEvent: { body: JSON.stringify({ ...event, id: "event_07FKJ843CVE8F7BXQSPFH0M53V" }) },
  stored: [{ messageId: event.id, topic: "dsync.user.created", tenant: "org_01EZTR6WYX1A0DSE2CYMGXQ24Y" }],
});
