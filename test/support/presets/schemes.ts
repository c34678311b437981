import { eventgrid } from "../../../src/webhooks/presets/eventgrid.js";
import { github } from "../../../src/webhooks/presets/github.js";
import { meta } from "../../../src/webhooks/presets/meta.js";
import { shopify } from "../../../src/webhooks/presets/shopify.js";
import { slack } from "../../../src/webhooks/presets/slack.js";
import { standard } from "../../../src/webhooks/presets/standard.js";
import { stripe } from "../../../src/webhooks/presets/stripe.js";
import { twilio } from "../../../src/webhooks/presets/twilio.js";

/** Presets that tests of the engine use. Each preset has a test of its own. */
export const schemes = { stripe, github, shopify, slack, twilio, standard, meta, eventgrid } as const;

export type SchemeName = keyof typeof schemes;
export const schemeNames = Object.keys(schemes) as readonly SchemeName[];

/** What a test needs of an inbox that it never reads. */
export const anyInbox = {
  receive: async () => "enqueued" as const,
  enqueue: async (messages: readonly unknown[]) => messages.map(() => "enqueued" as const),
};
