import type { WebhookScheme } from "../schemes/scheme.js";
import { svix } from "./svix.js";

/** Clerk sends by Svix. */
export const clerk = { ...svix, contentTypes: ["application/json"] } as const satisfies WebhookScheme;
