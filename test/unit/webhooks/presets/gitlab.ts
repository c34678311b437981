import { gitlab } from "../../../../src/webhooks/presets/gitlab.js";
import { describePreset } from "../../../support/presets/describe-preset.js";

const body = '{"object_kind":"push","event_name":"push","project_id":15}';

describePreset("gitlab", gitlab, {
  secret: "glwt-0123456789",
  otherSecret: "glwt-9876543210",
  sign: (_, { secret }) => ({ headers: { "x-gitlab-token": secret } }),
  event: { headers: { "x-gitlab-event": "Push Hook", "idempotency-key": "f5e5f430" }, body },
  otherEvent: { headers: { "x-gitlab-event": "Push Hook", "idempotency-key": "0e4f1b2a" }, body },
  stored: [{ messageId: "f5e5f430", topic: "push" }],
  tamper: "unnoticed",
});
