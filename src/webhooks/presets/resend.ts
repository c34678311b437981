import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";
import { svix, about as svixAbout } from "./svix.js";

/** Resend sends by Svix. */
export const resend = { ...svix, contentTypes: ["application/json"] } as const satisfies WebhookScheme;

export const about = {
  ...svixAbout,
  name: "Resend",
  checked: {
    title: "Verify webhooks requests; Retries and replays",
    date: "2026-11",
    with: "sdk",
    delivery: {
      page: "Retries and replays (Resend docs)",
      date: "2026-11-17",
      notSeen: "the 15 s, and that an endpoint is disabled",
    },
  },
} as const satisfies PresetAbout;
