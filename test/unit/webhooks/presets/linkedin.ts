import { linkedin } from "../../../../src/webhooks/presets/linkedin.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";
import type { ProviderEvent } from "../../../support/presets/preset-sample.js";

const secret = "linkedin-client-secret";
const code = "890e4665-4dfe-4ab1-b689-ed553bceeed0";
const organisation = "urn:li:organization:1";
const batch = (...ids: readonly number[]): ProviderEvent => ({
  body: JSON.stringify({
    type: "ORGANIZATION_SOCIAL_ACTION_NOTIFICATIONS",
    notifications: ids.map((notificationId) => {
      return { notificationId, organizationalEntity: organisation, action: "LIKE" };
    }),
  }),
});
const stored = (id: number) => ({ messageId: String(id), topic: "LIKE", tenant: organisation });

describePreset("linkedin", linkedin, {
  secret,
  otherSecret: "another-client-secret",
  sign: ({ body }, { secret: key }) => ({ headers: { "x-li-signature": hmac(key, `hmacsha256=${body}`) } }),
  event: batch(1, 2),
  otherEvent: batch(4),
  stored: [1, 2].map(stored),
  cutAgain: { batches: [batch(2), batch(1, 3)], stored: [1, 2, 3].map(stored) },
  handshakes: [
    {
      title: "challenge code",
      method: "GET",
      query: `challengeCode=${code}`,
      body: "",
      answer: { json: { challengeCode: code, challengeResponse: hmac(secret, code) } },
    },
  ],
});
