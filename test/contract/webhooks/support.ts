import { stripe } from "../../../src/webhooks/presets/stripe.js";
import { createWebhookRoute, type WebhookRoute } from "../../../src/webhooks/route.js";
import type { WebhookInbox, WebhookRouteOptions } from "../../../src/webhooks/route-options.js";
import type { WebhookScheme } from "../../../src/webhooks/schemes/scheme.js";
import { signWebhook } from "../../../src/webhooks/signing/sign-webhook.js";

export const stripeSecrets = "whsec_contract_secret_of_tests";

/** A route with Stripe as its one source. */
export const stripeRoute = (inbox: WebhookInbox, options: Partial<WebhookRouteOptions> = {}): WebhookRoute =>
  createWebhookRoute({ inbox, sources: { stripe: { scheme: stripe, secrets: stripeSecrets } }, ...options });

/** An event as Stripe would send it. */
export function stripeEvent(id: string, content: Readonly<Record<string, unknown>> = {}): Request {
  const body = JSON.stringify({ id, type: "charge.succeeded", ...content });
  const signed = signWebhook(stripe, {
    url: "https://example.com/webhooks/stripe",
    body,
    secrets: stripeSecrets,
  });
  return new Request(signed.url, { ...signed, body });
}

export interface WebhookAnswer {
  readonly status: number;
  readonly outcome: string | undefined;
}

export async function send(route: WebhookRoute, request: Request): Promise<WebhookAnswer> {
  const answer = await route(request);
  const { outcome } = (await answer.json()) as { outcome?: string };
  return { status: answer.status, outcome };
}

/** Of a provider that sends several events in one request. */
export const batchScheme: WebhookScheme = {
  verify: { kind: "signature", header: "x-signature" },
  split: "{json:events}",
  messageId: "{item:id}",
  topic: "{item:type}",
  tenant: "{item:shop}",
  volatileFields: ["attempt"],
};
export const batchSecrets = "secret-of-16-bytes";

export const event = (id: number, more: object = {}) => ({ id: `e${id}`, type: "paid", ...more });

export function delivery(events: readonly unknown[]): Request {
  const body = JSON.stringify({ events });
  const signed = signWebhook(batchScheme, {
    url: "https://example.com/webhooks/acme",
    body,
    secrets: batchSecrets,
  });
  return new Request(signed.url, { ...signed, body });
}
