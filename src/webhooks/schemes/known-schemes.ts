import type { Report } from "./field-checks.js";
import type { WebhookScheme } from "./scheme.js";

const slackUrlVerification = {
  method: "POST",
  when: { "{json:type}": "url_verification" },
  answer: { text: "{json:challenge}" },
} as const;

const eventGridValidation = {
  method: "POST",
  when: { "{json:0.eventType}": "Microsoft.EventGrid.SubscriptionValidationEvent" },
  answer: { json: { validationResponse: "{json:0.data.validationCode}" } },
} as const;

/** The handshake of CloudEvents: may events from this origin be sent here? */
const cloudEventsPermission = {
  method: "OPTIONS",
  when: {},
  answer: {
    headers: { "webhook-allowed-origin": "{header:webhook-request-origin}", "webhook-allowed-rate": "*" },
  },
} as const;

const metaSubscription = {
  method: "GET",
  when: { "{query:hub.mode}": "subscribe" },
  verifyToken: "{query:hub.verify_token}",
  answer: { text: "{query:hub.challenge}" },
} as const;

/** Providers that a source can name. */
export const schemes = {
  stripe: {
    verify: {
      kind: "signature",
      header: "stripe-signature",
      separator: ",",
      prefix: "v1=",
      signed: "{timestamp}.{body}",
      timestamp: { header: "stripe-signature", separator: ",", prefix: "t=" },
    },
    messageId: "{json:id}",
    topic: "{json:type}",
    tenant: "{json:account}",
    // the number of endpoints that have not answered yet, which differs between two attempts
    volatileFields: ["pending_webhooks"],
    contentTypes: ["application/json"],
  },
  github: {
    verify: { kind: "signature", header: "x-hub-signature-256", prefix: "sha256=" },
    messageId: "{header:x-github-delivery}",
    topic: "{header:x-github-event}",
    tenant: "{json:installation.id}",
    keepHeaders: ["x-github-event", "x-github-delivery", "x-github-hook-id"],
    contentTypes: ["application/json", "application/x-www-form-urlencoded"],
  },
  shopify: {
    verify: { kind: "signature", header: "x-shopify-hmac-sha256", encoding: "base64" },
    messageId: "{header:x-shopify-webhook-id}",
    topic: "{header:x-shopify-topic}",
    // no tenant: the shop is in a header only, which is not signed
    keepHeaders: [
      "x-shopify-topic",
      "x-shopify-shop-domain",
      "x-shopify-api-version",
      "x-shopify-webhook-id",
      "x-shopify-event-id",
      "x-shopify-triggered-at",
    ],
  },
  slack: {
    verify: {
      kind: "signature",
      header: "x-slack-signature",
      prefix: "v0=",
      signed: "v0:{timestamp}:{body}",
      timestamp: { header: "x-slack-request-timestamp" },
    },
    messageId: "{json:event_id}",
    topic: ["{json:event.type}", "{form:command}", "{json:type}"],
    tenant: ["{json:team_id}", "{json:team.id}", "{form:team_id}"],
    keepHeaders: ["x-slack-retry-num", "x-slack-retry-reason"],
    contentTypes: ["application/json", "application/x-www-form-urlencoded"],
    handshakes: [slackUrlVerification],
    // Slack shows the answer to a slash command to the user
    answer: { contentType: "text/plain", body: "" },
  },
  twilio: {
    verify: {
      kind: "signature",
      header: "x-twilio-signature",
      algorithm: "sha1",
      encoding: "base64",
      signed: "{url}{sortedForm}",
      bodyDigestQuery: "bodySHA256",
    },
    // not MessageSid or CallSid, which are the same for every change of status
    messageId: "{header:i-twilio-idempotency-token}",
    topic: [
      "message.{form:MessageStatus}",
      "message.{form:SmsStatus}",
      "call.{form:CallStatus}",
      "{json:0.type}",
    ],
    tenant: "{form:AccountSid}",
    answer: { contentType: "text/xml", body: "<Response/>" },
  },
  standard: {
    verify: {
      kind: "signature",
      header: "webhook-signature",
      separator: " ",
      encoding: "base64",
      signed: "{header:webhook-id}.{timestamp}.{body}",
      timestamp: { header: "webhook-timestamp" },
      keys: [
        { secretPrefix: "whpk_", secretEncoding: "base64", algorithm: "ed25519", prefix: "v1a," },
        { secretPrefix: "whsk_", secretEncoding: "base64", algorithm: "ed25519", prefix: "v1a," },
        { secretPrefix: "whsec_", secretEncoding: "base64", algorithm: "sha256", prefix: "v1," },
        { secretEncoding: "base64", algorithm: "sha256", prefix: "v1," },
      ],
    },
    messageId: "{header:webhook-id}",
    topic: "{json:type}",
    keepHeaders: ["webhook-id", "webhook-timestamp"],
  },
  meta: {
    verify: { kind: "signature", header: "x-hub-signature-256", prefix: "sha256=" },
    // a delivery is a batch without an id
    topic: "{json:object}",
    tenant: "{json:entry.0.id}",
    contentTypes: ["application/json"],
    handshakes: [metaSubscription],
  },
  eventgrid: {
    verify: { kind: "token", token: ["{header:x-webhook-token}", "{query:token}"] },
    // only for a single CloudEvent; a list of events may be divided differently when it is sent again
    messageId: "{json:id}",
    topic: ["{json:type}", "{json:0.eventType}", "{json:0.type}"],
    keepHeaders: ["aeg-subscription-name", "aeg-event-type"],
    handshakes: [eventGridValidation, cloudEventsPermission],
  },
} as const satisfies Record<string, WebhookScheme>;

export type SchemeName = keyof typeof schemes;

export const schemeNames = Object.keys(schemes) as readonly SchemeName[];

/** Returns the scheme itself, or the known scheme of that name. */
export function schemeOf(scheme: unknown, report: Report): WebhookScheme | Record<string, unknown> {
  if (typeof scheme !== "string") return scheme as WebhookScheme;
  if (Object.hasOwn(schemes, scheme)) return schemes[scheme as SchemeName];
  report(`the scheme ${JSON.stringify(scheme)} is not known; known: ${schemeNames.join(", ")}`);
  return { verify: { kind: "token", token: "{header:unknown}" } };
}
