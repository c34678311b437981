import { eventgrid } from "../presets/eventgrid.js";
import { github } from "../presets/github.js";
import { meta } from "../presets/meta.js";
import { shopify } from "../presets/shopify.js";
import { slack } from "../presets/slack.js";
import { standard } from "../presets/standard.js";
import { stripe } from "../presets/stripe.js";
import { twilio } from "../presets/twilio.js";
import type { Report } from "./field-checks.js";
import type { WebhookScheme } from "./scheme.js";

/** Providers that a source can name. */
export const schemes = { stripe, github, shopify, slack, twilio, standard, meta, eventgrid } as const;

export type SchemeName = keyof typeof schemes;

export const schemeNames = Object.keys(schemes) as readonly SchemeName[];

/** Returns the scheme itself, or the known scheme of that name. */
export function schemeOf(scheme: unknown, report: Report): WebhookScheme | Record<string, unknown> {
  if (typeof scheme !== "string") return scheme as WebhookScheme;
  if (Object.hasOwn(schemes, scheme)) return schemes[scheme as SchemeName];
  report(`the scheme ${JSON.stringify(scheme)} is not known; known: ${schemeNames.join(", ")}`);
  return { verify: { kind: "token", token: "{header:unknown}" } };
}
