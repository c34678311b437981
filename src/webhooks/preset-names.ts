import type { loaders } from "./presets/index.js";
import type { WebhookScheme } from "./schemes/scheme.js";

/** The name of a provider that a source may give instead of a scheme. */
export type PresetName = keyof typeof loaders;

/** Known at once, so that a wrong name is refused before anything is loaded. */
export const presetNames = [
  "adyen",
  "asana",
  "bitbucket",
  "box",
  "calendly",
  "clerk",
  "clickup",
  "discord",
  "docusign",
  "dropbox",
  "eventgrid",
  "github",
  "gitlab",
  "googlepubsub",
  "googlepush",
  "hubspot",
  "intercom",
  "jira",
  "lemonsqueezy",
  "linear",
  "linkedin",
  "mailgun",
  "mandrill",
  "meta",
  "mollie",
  "mollieclassic",
  "msgraph",
  "msgraphdata",
  "notion",
  "okta",
  "paddle",
  "paypal",
  "plaid",
  "razorpay",
  "resend",
  "sendgrid",
  "shopify",
  "slack",
  "sns",
  "square",
  "standard",
  "stripe",
  "svix",
  "trello",
  "twilio",
  "twitch",
  "typeform",
  "whatsapp",
  "woocommerce",
  "workos",
  "x",
  "xero",
  "zendesk",
  "zoom",
] as const satisfies readonly PresetName[];

export const isPresetName = (name: unknown): name is PresetName =>
  (presetNames as readonly unknown[]).includes(name);

/**
 * Loads a preset.
 *
 * @example
 * const stripe = await loadPreset("stripe"); // or: import { stripe } from "oncebox/webhooks/stripe"
 */
export const loadPreset = async (name: PresetName): Promise<WebhookScheme> =>
  (await import("./presets/index.js")).loaders[name]();
