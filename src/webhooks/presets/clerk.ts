import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";
import { svix, about as svixAbout } from "./svix.js";

/** Clerk sends by Svix. */
export const clerk = { ...svix, contentTypes: ["application/json"] } as const satisfies WebhookScheme;

export const about = {
  ...svixAbout,
  name: "Clerk",
  checked: {
    title: "Sync Clerk data to your app with webhooks",
    date: "2026-11",
    with: "sdk",
    delivery: {
      page: "Webhooks overview (Clerk docs), which names Svix's Retry schedule",
      date: "2026-11-17",
    },
  },
} as const satisfies PresetAbout;
