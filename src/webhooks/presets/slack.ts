import type { Handshake, WebhookScheme } from "../schemes/scheme.js";

const slackUrlVerification = {
  method: "POST",
  when: { "{json:type}": "url_verification" },
  answer: { text: "{json:challenge}" },
} as const satisfies Handshake;

/** Slack looks now and then whether the certificate of a command's URL is valid. */
const slackSslCheck = {
  method: "POST",
  when: { "{form:ssl_check}": "1" },
  answer: {},
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
  // an app that is installed for a whole organisation may get events without a team
  tenant: [
    "{json:team_id}",
    "{json:team.id}",
    "{form:team_id}",
    "{json:enterprise_id}",
    "{json:enterprise.id}",
    "{form:enterprise_id}",
  ],
  keepHeaders: ["x-slack-retry-num", "x-slack-retry-reason"],
  contentTypes: ["application/json", "application/x-www-form-urlencoded"],
  handshakes: [slackUrlVerification, slackSslCheck],
  // Slack shows the answer to a slash command to the user
  answer: { contentType: "text/plain", body: "" },
  receiveMs: 2_000,
} as const satisfies WebhookScheme;
