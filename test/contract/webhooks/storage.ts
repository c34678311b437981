import { describe, expect, it } from "vitest";
import { webhookBody } from "../../../src/webhooks/extract-message.js";
import { stripe } from "../../../src/webhooks/presets/stripe.js";
import { createWebhookRoute } from "../../../src/webhooks/route.js";
import type { WebhookScheme } from "../../../src/webhooks/schemes/scheme.js";
import { signWebhook } from "../../../src/webhooks/signing/sign-webhook.js";
import { type InboxContext, stored } from "../inbox/support.js";
import { send, stripeEvent, stripeSecrets } from "./support.js";

const scheme: WebhookScheme = {
  verify: { kind: "signature", header: "x-signature", signed: "{header:x-id}.{body}" },
  messageId: "{header:x-id}",
  tenant: "{header:x-tenant}",
};
const secrets = "secret-of-16-bytes";

const bodies: readonly Uint8Array[] = [
  Buffer.from('\uFEFF{"bom":true}\r\n'),
  Buffer.from("nul \0 and \u0001base64: and 🚀 ß ☃"),
  Uint8Array.from({ length: 256 }, (_, byte) => byte),
  Buffer.from([0xed, 0xa0, 0x80]), // a surrogate, which UTF-8 does not have
  Buffer.from([0x61, 0xc3]), // cut in the middle of a character
  Buffer.alloc(1_000_000, "0123456789"),
];

export function storageTests({ freshInbox }: InboxContext): void {
  describe("storage", () => {
    it("FUN-01 a body of any bytes is stored byte for byte with its headers, and another body is a conflict", async () => {
      const { inbox } = await freshInbox();
      const route = createWebhookRoute({ inbox, sources: { acme: { scheme, secrets } }, receiveMs: 120_000 });
      const deliver = async (body: Uint8Array, id: string) => {
        const signed = signWebhook(scheme, {
          url: "https://example.com/webhooks/acme",
          body,
          secrets,
          headers: { "content-type": "application/octet-stream", "x-id": id, "x-tenant": "Übermieter" },
        });
        const answer = await route(new Request(signed.url, { ...signed, body }));
        return ((await answer.json()) as { outcome?: string }).outcome;
      };
      for (const [index, body] of bodies.entries()) {
        const messageId = `body-${index}`;
        expect(await deliver(body, messageId)).toBe("enqueued");
        expect(await deliver(body, messageId)).toBe("duplicate");
        const message = await stored(inbox, { source: "acme", messageId });
        expect(Buffer.from(webhookBody(message)).equals(body), messageId).toBe(true);
        expect(message.headers).toMatchObject({
          "content-type": "application/octet-stream",
          "oncebox-tenant": "Übermieter",
        });
        expect(await deliver(Buffer.from("other"), messageId)).toBe("conflict");
      }
    });

    it("MID-12 ADD-22 the topic is the source's, and the type what the provider calls it, singly and in a batch", async () => {
      const { inbox } = await freshInbox();
      const batched: WebhookScheme = {
        ...scheme,
        topic: "{item:type}",
        messageId: "{item:id}",
        split: "{json:}",
      };
      const route = createWebhookRoute({
        inbox,
        sources: {
          stripe: { scheme: stripe, secrets: stripeSecrets },
          acme: { scheme: batched, secrets },
        },
      });
      expect(await send(route, stripeEvent("evt_1", { type: "invoice.paid" }))).toMatchObject({
        status: 200,
      });
      const body = JSON.stringify([{ id: "1", type: "a" }, { id: "2", type: "b.c" }, { id: "3" }]);
      const signed = signWebhook(batched, {
        ...{ url: "https://example.com/webhooks/acme", body, secrets, headers: { "x-id": "1" } },
      });
      expect((await route(new Request(signed.url, { ...signed, body }))).status).toBe(200);
      const { messages } = await inbox.list({});
      expect(messages.map(({ topic, type }) => [topic, type]).sort()).toEqual([
        ["acme", "acme"],
        ["acme.a", "a"],
        ["acme.b.c", "b.c"],
        ["stripe.invoice.paid", "invoice.paid"],
      ]);
    });
  });
}
