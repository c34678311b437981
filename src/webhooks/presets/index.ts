import type { WebhookScheme } from "../schemes/scheme.js";

/**
 * Loads a preset by its name. Each is a module of its own, so that a cold start holds only those that the app names. In
 * alphabetical order.
 */
const loaders = {
  eventgrid: async () => (await import("./eventgrid.js")).eventgrid,
  github: async () => (await import("./github.js")).github,
  meta: async () => (await import("./meta.js")).meta,
  shopify: async () => (await import("./shopify.js")).shopify,
  slack: async () => (await import("./slack.js")).slack,
  standard: async () => (await import("./standard.js")).standard,
  stripe: async () => (await import("./stripe.js")).stripe,
  twilio: async () => (await import("./twilio.js")).twilio,
} satisfies Record<string, () => Promise<WebhookScheme>>;

/** The name of a provider that a source may give instead of a scheme. */
export type PresetName = keyof typeof loaders;

export const presetNames = Object.keys(loaders) as readonly PresetName[];

export const isPresetName = (name: unknown): name is PresetName =>
  typeof name === "string" && Object.hasOwn(loaders, name);

export const loadPreset = (name: PresetName): Promise<WebhookScheme> => loaders[name]();
