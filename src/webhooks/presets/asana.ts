import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

/** Its header is the secret of the new webhook, which the answer to the call that creates the webhook has, too. */
const hookSecret = {
  method: "POST",
  when: { "{header:x-hook-secret}": true },
  verifyToken: "{query:token}",
  answer: { headers: { "x-hook-secret": "{header:x-hook-secret}" } },
} as const satisfies Handshake;

export const asana = {
  verify: { kind: "signature", header: "x-hook-signature" },
  split: "{json:events}",
  topic: ["{item:resource.resource_type}.{item:action}", "{item:action}"],
  contentTypes: ["application/json"],
  handshakes: [hookSecret],
} as const satisfies WebhookScheme;

export const about = {
  name: "Asana",
  batches: true,
  retries:
    "For up to 24 hours, after anything but 2xx. Asana promises at most one delivery: events may be missing.",
  answerWithin: "10 s",
  secret:
    "The X-Hook-Secret of each webhook, used as text. Give all of them as secrets, and a verifyToken for handshakes.",
  signs: "The body.",
  idIsUnique: "Asana gives no id: the hash of the event, which has its time, user, resource and action.",
  checked: {
    title: "Webhooks guide",
    date: "2026-11",
    with: "documentation",
    delivery: { page: "Webhooks guide (Asana developers)", date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
