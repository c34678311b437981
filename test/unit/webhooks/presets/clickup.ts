import { clickup } from "../../../../src/webhooks/presets/clickup.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";
import type { PresetSample } from "../../../support/presets/preset-sample.js";

const event = {
  event: "taskUpdated",
  task_id: "1vj37mc",
  webhook_id: "7fa3ec74-69a8-4530-a251-8a13730bd204",
  history_items: [{ id: "2800763136717140857", field: "status" }],
};

const sample: PresetSample = {
  secret: "O94IM25S7PXBPYTMNXLLET230SRP0S89COR7B1YOJ2ZIE8WQNK5UUKEF26W0Z5GA",
  otherSecret: "P94IM25S7PXBPYTMNXLLET230SRP0S89COR7B1YOJ2ZIE8WQNK5UUKEF26W0Z5GA",
  sign: ({ body }, { secret }) => ({ headers: { "x-signature": hmac(secret, body) } }),
  event: { body: JSON.stringify(event) },
  // one change, two events
  otherEvent: { body: JSON.stringify({ ...event, event: "taskStatusUpdated" }) },
  stored: [
    {
      messageId: "7fa3ec74-69a8-4530-a251-8a13730bd204/taskUpdated/2800763136717140857",
      topic: "taskUpdated",
    },
  ],
};
describePreset("clickup", clickup, sample);

/** Two deletions and restorations of a task look alike, and each must be handled. */
const { history_items: _, ...bare } = { ...event, event: "taskDeleted" };
describePreset("clickup, an event without history", clickup, {
  ...sample,
  event: { body: JSON.stringify(bare) },
  otherEvent: { body: JSON.stringify({ ...bare, task_id: "1vj37md" }) },
  stored: [{ messageId: /^[0-9a-f-]{36}$/, topic: "taskDeleted" }],
  neverDuplicate: true,
});
