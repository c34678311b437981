import type { WebhookScheme } from "../schemes/scheme.js";
import { svix } from "./svix.js";

/** Resend sends by Svix. */
export const resend = { ...svix, contentTypes: ["application/json"] } as const satisfies WebhookScheme;
