import type { WebhookScheme } from "../schemes/scheme.js";
import { meta } from "./meta.js";

/** As other webhooks of Meta, with one message for each change: an entry may have those of several phone numbers. */
export const whatsapp = {
  ...meta,
  split: "{json:entry.*.changes}",
  topic: "{item:field}",
  tenant: "{item:value.metadata.phone_number_id}",
} as const satisfies WebhookScheme;
