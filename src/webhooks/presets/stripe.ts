import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const stripe = {
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
  // a snapshot event names the connected account in `account`, a thin event in `context`
  tenant: ["{json:account}", "{json:context}"],
  // the number of endpoints that have not answered yet, which differs between two attempts
  volatileFields: ["pending_webhooks"],
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;

export const about = {
  name: "Stripe",
  batches: false,
  retries:
    "For up to 3 days, at growing intervals, after anything but 2xx. In a sandbox 3 times in a few hours.",
  answerWithin: undefined,
  secret: "The endpoint's signing secret, whsec_…, used as text.",
  signs: "Timestamp and body. Each retry is signed with its own time.",
  idIsUnique: "Each event has an id evt_…, which a retry keeps.",
  checked: {
    title: "Receive Stripe events in your webhook endpoint",
    date: "2026-11",
    with: "sdk",
    delivery: {
      page: "Process undelivered webhook events (Stripe docs)",
      date: "2026-11-17",
      notSeen: "after which answers, and the sandbox",
    },
  },
} as const satisfies PresetAbout;
