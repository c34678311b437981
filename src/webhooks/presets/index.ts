import type { WebhookScheme } from "../schemes/scheme.js";

/**
 * Loads a preset by its name. Each is a module of its own, so that a cold start holds only those that the app names. In
 * alphabetical order.
 */
const loaders = {
  adyen: async () => (await import("./adyen.js")).adyen,
  asana: async () => (await import("./asana.js")).asana,
  bitbucket: async () => (await import("./bitbucket.js")).bitbucket,
  box: async () => (await import("./box.js")).box,
  calendly: async () => (await import("./calendly.js")).calendly,
  clerk: async () => (await import("./clerk.js")).clerk,
  clickup: async () => (await import("./clickup.js")).clickup,
  discord: async () => (await import("./discord.js")).discord,
  docusign: async () => (await import("./docusign.js")).docusign,
  dropbox: async () => (await import("./dropbox.js")).dropbox,
  eventgrid: async () => (await import("./eventgrid.js")).eventgrid,
  github: async () => (await import("./github.js")).github,
  gitlab: async () => (await import("./gitlab.js")).gitlab,
  googlepubsub: async () => (await import("./googlepubsub.js")).googlepubsub,
  googlepush: async () => (await import("./googlepush.js")).googlepush,
  hubspot: async () => (await import("./hubspot.js")).hubspot,
  intercom: async () => (await import("./intercom.js")).intercom,
  jira: async () => (await import("./jira.js")).jira,
  lemonsqueezy: async () => (await import("./lemonsqueezy.js")).lemonsqueezy,
  linear: async () => (await import("./linear.js")).linear,
  linkedin: async () => (await import("./linkedin.js")).linkedin,
  mailgun: async () => (await import("./mailgun.js")).mailgun,
  mandrill: async () => (await import("./mandrill.js")).mandrill,
  meta: async () => (await import("./meta.js")).meta,
  mollie: async () => (await import("./mollie.js")).mollie,
  mollieclassic: async () => (await import("./mollieclassic.js")).mollieclassic,
  msgraph: async () => (await import("./msgraph.js")).msgraph,
  notion: async () => (await import("./notion.js")).notion,
  okta: async () => (await import("./okta.js")).okta,
  paddle: async () => (await import("./paddle.js")).paddle,
  paypal: async () => (await import("./paypal.js")).paypal,
  plaid: async () => (await import("./plaid.js")).plaid,
  razorpay: async () => (await import("./razorpay.js")).razorpay,
  resend: async () => (await import("./resend.js")).resend,
  sendgrid: async () => (await import("./sendgrid.js")).sendgrid,
  shopify: async () => (await import("./shopify.js")).shopify,
  slack: async () => (await import("./slack.js")).slack,
  sns: async () => (await import("./sns.js")).sns,
  square: async () => (await import("./square.js")).square,
  standard: async () => (await import("./standard.js")).standard,
  stripe: async () => (await import("./stripe.js")).stripe,
  svix: async () => (await import("./svix.js")).svix,
  trello: async () => (await import("./trello.js")).trello,
  twilio: async () => (await import("./twilio.js")).twilio,
  twitch: async () => (await import("./twitch.js")).twitch,
  typeform: async () => (await import("./typeform.js")).typeform,
  whatsapp: async () => (await import("./whatsapp.js")).whatsapp,
  woocommerce: async () => (await import("./woocommerce.js")).woocommerce,
  workos: async () => (await import("./workos.js")).workos,
  x: async () => (await import("./x.js")).x,
  xero: async () => (await import("./xero.js")).xero,
  zendesk: async () => (await import("./zendesk.js")).zendesk,
  zoom: async () => (await import("./zoom.js")).zoom,
} satisfies Record<string, () => Promise<WebhookScheme>>;

/** The name of a provider that a source may give instead of a scheme. */
export type PresetName = keyof typeof loaders;

export const presetNames = Object.keys(loaders) as readonly PresetName[];

export const isPresetName = (name: unknown): name is PresetName =>
  typeof name === "string" && Object.hasOwn(loaders, name);

export const loadPreset = (name: PresetName): Promise<WebhookScheme> => loaders[name]();
