import type { WebhookScheme } from "../schemes/scheme.js";

/**
 * Loads a preset by its name. Each is a module of its own, so that a cold start holds only those that the app names. In
 * alphabetical order. The names are also in preset-names.ts.
 */
export const loaders = {
  asana: async () => (await import("./asana.js")).asana,
  bitbucket: async () => (await import("./bitbucket.js")).bitbucket,
  clerk: async () => (await import("./clerk.js")).clerk,
  discord: async () => (await import("./discord.js")).discord,
  eventgrid: async () => (await import("./eventgrid.js")).eventgrid,
  github: async () => (await import("./github.js")).github,
  gitlab: async () => (await import("./gitlab.js")).gitlab,
  jira: async () => (await import("./jira.js")).jira,
  linkedin: async () => (await import("./linkedin.js")).linkedin,
  mailgun: async () => (await import("./mailgun.js")).mailgun,
  mandrill: async () => (await import("./mandrill.js")).mandrill,
  meta: async () => (await import("./meta.js")).meta,
  resend: async () => (await import("./resend.js")).resend,
  sendgrid: async () => (await import("./sendgrid.js")).sendgrid,
  shopify: async () => (await import("./shopify.js")).shopify,
  slack: async () => (await import("./slack.js")).slack,
  standard: async () => (await import("./standard.js")).standard,
  stripe: async () => (await import("./stripe.js")).stripe,
  svix: async () => (await import("./svix.js")).svix,
  trello: async () => (await import("./trello.js")).trello,
  twilio: async () => (await import("./twilio.js")).twilio,
  whatsapp: async () => (await import("./whatsapp.js")).whatsapp,
  x: async () => (await import("./x.js")).x,
  zoom: async () => (await import("./zoom.js")).zoom,
} satisfies Record<string, () => Promise<WebhookScheme>>;
