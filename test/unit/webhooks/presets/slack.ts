import { slack } from "../../../../src/webhooks/presets/slack.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac, seconds } from "../../../support/presets/hmac.js";
import type { PresetSample } from "../../../support/presets/preset-sample.js";

const event = (id: string, more: object = { team_id: "T1" }) =>
  JSON.stringify({ type: "event_callback", event_id: id, event: { type: "app_mention" }, ...more });
const form = { "content-type": "application/x-www-form-urlencoded" };

const sample: PresetSample = {
  secret: "8f742231b10e8888abcd99yyyzzz85a5",
  otherSecret: "8f742231b10e8888abcd99yyyzzz85a6",
  sign: ({ body }, { at, secret }) => ({
    headers: {
      "x-slack-request-timestamp": seconds(at),
      "x-slack-signature": `v0=${hmac(secret, `v0:${seconds(at)}:${body}`)}`,
    },
  }),
  event: { body: event("Ev1") },
  retry: { headers: { "x-slack-retry-num": "1" }, body: event("Ev1") },
  otherEvent: { body: event("Ev2") },
  stored: [{ messageId: "Ev1", topic: "app_mention", tenant: "T1" }],
  answer: { text: "" },
  handshakes: [
    {
      title: "url_verification",
      signed: true,
      body: '{"type":"url_verification","challenge":"3eZbrw1aB"}',
      answer: { text: "3eZbrw1aB" },
    },
    {
      title: "ssl_check",
      signed: true,
      headers: form,
      body: "ssl_check=1&token=xyzz0WbapA4vBCDEFasx0q6G",
      answer: { text: "" },
    },
  ],
  examples: [
    {
      title: "Verifying requests from Slack",
      secret: "8f742231b10e8888abcd99yyyzzz85a5",
      at: new Date(1531420618_000),
      headers: {
        ...form,
        "x-slack-request-timestamp": "1531420618",
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
      },
      body:
        "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V" +
        "&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=" +
        "&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN" +
        "&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
      stored: { topic: "/webhook-collect", tenant: "T1DC2JH3J" },
    },
  ],
};

describePreset("slack", slack, sample);

const interaction = (trigger: string) => ({
  headers: form,
  body: `payload=${encodeURIComponent(
    JSON.stringify({ type: "block_actions", trigger_id: trigger, team: null, enterprise: { id: "E1" } }),
  )}`,
});
describePreset("slack, an organisation without a team", slack, {
  ...sample,
  event: interaction("1.2.3"),
  retry: interaction("1.2.3"),
  otherEvent: interaction("1.2.4"),
  stored: [{ messageId: /^body-sha256:/, topic: "block_actions", tenant: "E1" }],
  handshakes: [],
  examples: [],
});

describePreset("slack, an event of an organisation without a team", slack, {
  ...sample,
  event: { body: event("Ev1", { team_id: null, enterprise_id: "E1" }) },
  retry: { body: event("Ev1", { team_id: null, enterprise_id: "E1" }) },
  stored: [{ messageId: "Ev1", topic: "app_mention", tenant: "E1" }],
  handshakes: [],
  examples: [],
});

const command = (trigger: string) => ({
  headers: form,
  body: `command=%2Fdeploy&team_id=&enterprise_id=E1&trigger_id=${trigger}`,
});
describePreset("slack, a command of an organisation without a team", slack, {
  ...sample,
  event: command("1.2.3"),
  retry: command("1.2.3"),
  otherEvent: command("1.2.4"),
  stored: [{ messageId: /^body-sha256:/, topic: "/deploy", tenant: "E1" }],
  handshakes: [],
  examples: [],
});
