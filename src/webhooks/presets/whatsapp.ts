import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";
import { meta } from "./meta.js";

/** As other webhooks of Meta, with one message for each change: an entry may have those of several phone numbers. */
export const whatsapp = {
  ...meta,
  split: "{json:entry.*.changes}",
  topic: "{item:field}",
  tenant: "{item:value.metadata.phone_number_id}",
} as const satisfies WebhookScheme;

export const about = {
  name: "WhatsApp",
  batches: true,
  retries: "Less and less often for up to 7 days, after anything but 200.",
  answerWithin: undefined,
  secret: "The app secret, used as text.",
  signs: "The body.",
  idIsUnique: "A change may hold several messages and has no id of its own: the hash of the change.",
  checked: {
    title: "WhatsApp Cloud API: Webhooks",
    date: "2026-11",
    with: "documentation",
    delivery: { page: "Webhooks overview (WhatsApp Cloud API), as others quote it", date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
