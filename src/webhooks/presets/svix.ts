import type { WebhookScheme } from "../schemes/scheme.js";
import { standard } from "./standard.js";

/** The signature of Standard Webhooks, under headers svix-… or webhook-…, as the sender has chosen. */
export const svix = {
  ...standard,
  topic: ["{json:type}", "{json:eventType}"],
} as const satisfies WebhookScheme;
