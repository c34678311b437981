import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

const slackUrlVerification = {
  method: "POST",
  when: { "{json:type}": "url_verification" },
  answer: { text: "{json:challenge}" },
} as const satisfies Handshake;

export const slack = {
  verify: {
    kind: "signature",
    header: "x-slack-signature",
    prefix: "v0=",
    signed: "v0:{timestamp}:{body}",
    timestamp: { header: "x-slack-request-timestamp" },
  },
  messageId: "{json:event_id}",
  topic: ["{json:event.type}", "{form:command}", "{json:type}"],
  tenant: ["{json:team_id}", "{json:team.id}", "{form:team_id}"],
  keepHeaders: ["x-slack-retry-num", "x-slack-retry-reason"],
  contentTypes: ["application/json", "application/x-www-form-urlencoded"],
  handshakes: [slackUrlVerification],
  // Slack shows the answer to a slash command to the user
  answer: { contentType: "text/plain", body: "" },
} as const satisfies WebhookScheme;

export const about = {
  name: "Slack",
  batches: false,
  retries: "Events: 3 retries (at once, after 1 minute, after 5 minutes). Commands and interactions: none.",
  answerWithin: "3 s",
  secret: "The app's signing secret, used as text.",
  signs: "Timestamp and body.",
  idIsUnique: "event_id is unique in a workspace, and a retry keeps it.",
  checked: { title: "Verifying requests from Slack", date: "2026-11", with: "documentation" },
} as const satisfies PresetAbout;
