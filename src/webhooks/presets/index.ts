import type { WebhookScheme } from "../schemes/scheme.js";

/**
 * Loads a preset by its name. Each is a module of its own, so that a cold start holds only those that the app names. In
 * alphabetical order. The names are also in preset-names.ts.
 */
export const loaders = {
  eventgrid: async () => (await import("./eventgrid.js")).eventgrid,
  github: async () => (await import("./github.js")).github,
  meta: async () => (await import("./meta.js")).meta,
  shopify: async () => (await import("./shopify.js")).shopify,
  slack: async () => (await import("./slack.js")).slack,
  standard: async () => (await import("./standard.js")).standard,
  stripe: async () => (await import("./stripe.js")).stripe,
  twilio: async () => (await import("./twilio.js")).twilio,
} satisfies Record<string, () => Promise<WebhookScheme>>;
