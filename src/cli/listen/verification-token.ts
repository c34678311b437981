import { parseJson } from "../../webhooks/schemes/delivery.js";
import { jsonText } from "../../webhooks/schemes/template.js";
import type { Explanation } from "../verify/explain-refusal.js";

/** What to do with the request by which Notion tells its secret. It is the one secret that a terminal shows: nobody knows it yet. */
export function verificationTokenAdvice(body: Uint8Array): Explanation | undefined {
  const token = jsonText(parseJson(Buffer.from(body).toString("utf8")), "verification_token");
  if (token === undefined) return undefined;
  return {
    reason: `this is no event: the provider tells its verification token, which is ${token}`,
    advice:
      "Enter it at the provider to verify the subscription, and give it to the source as its secret. It signs all events from now on.",
  };
}
