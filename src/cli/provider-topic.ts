import { isPresetName, type PresetName } from "../webhooks/preset-names.js";

/**
 * An event type of each provider, to show and to sign as an example. Most were found in its documentation or in its own library.
 * Those whose topic is not the kind of an event have an example of what it is.
 */
const topics: Readonly<Record<PresetName, string>> = {
  adyen: "AUTHORISATION",
  asana: "task.added",
  bitbucket: "repo:push",
  box: "FILE.UPLOADED",
  calendly: "invitee.created",
  clerk: "user.created",
  clickup: "taskCreated",
  discord: "APPLICATION_AUTHORIZED",
  docusign: "envelope-completed",
  dropbox: "dropbox", // the source's name: a notification has no kind
  eventgrid: "Microsoft.Storage.BlobCreated",
  github: "push",
  gitlab: "push",
  googlepubsub: "projects/example/subscriptions/example", // the subscription
  googlepush: "exists", // the state of the resource
  hubspot: "contact.creation",
  intercom: "conversation.user.created",
  jira: "jira:issue_created",
  lemonsqueezy: "order_created",
  linear: "Issue.create",
  linkedin: "SHARE_MENTION",
  mailgun: "delivered",
  mandrill: "send",
  meta: "page",
  mollie: "payment-link.paid",
  mollieclassic: "mollieclassic", // as Dropbox
  msgraph: "created",
  msgraphdata: "created",
  notion: "page.created",
  okta: "user.session.start",
  paddle: "transaction.completed",
  paypal: "PAYMENT.CAPTURE.COMPLETED",
  plaid: "TRANSACTIONS.SYNC_UPDATES_AVAILABLE",
  razorpay: "payment.captured",
  resend: "email.delivered",
  sendgrid: "delivered",
  shopify: "orders/create",
  slack: "app_mention",
  sns: "Notification",
  square: "payment.created",
  standard: "user.created",
  stripe: "invoice.paid",
  svix: "user.created",
  trello: "createCard",
  twilio: "message.delivered",
  twitch: "channel.follow",
  typeform: "form_response",
  whatsapp: "messages",
  woocommerce: "order.created",
  workos: "dsync.user.created",
  x: "profile.update.bio",
  xero: "INVOICE.UPDATE",
  zendesk: "zen:event-type:ticket.created",
  zoom: "meeting.started",
};

/** An event type that the provider really sends, for example events. */
export const providerTopic = (provider: unknown): string =>
  isPresetName(provider) ? topics[provider] : "test";
