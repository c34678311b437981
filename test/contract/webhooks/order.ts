import { describe, expect, it } from "vitest";
import { timeBudget } from "../../../src/base/async.js";
import { createDispatcher } from "../../../src/dispatch/dispatcher.js";
import { stripe } from "../../../src/webhooks/presets/stripe.js";
import { createWebhookRoute } from "../../../src/webhooks/route.js";
import type { InboxContext } from "../inbox/support.js";
import { send, stripeEvent, stripeSecrets } from "./support.js";

const ofCustomer = (id: string, customer: string, more: object = {}) =>
  stripeEvent(id, { data: { object: { customer } }, ...more });

export function orderTests({ freshInbox }: InboxContext): void {
  describe("order", () => {
    it("ADD-23 webhooks of one object are handled one at a time, in the order of their arrival", async () => {
      const { inbox } = await freshInbox();
      const route = createWebhookRoute({
        inbox,
        sources: {
          stripe: {
            scheme: stripe,
            secrets: stripeSecrets,
            partitionKey: "{json:data.object.customer}",
          },
        },
      });
      const customers = ["cus_a", "cus_b", "cus_c"];
      for (const number of [1, 2, 3, 4])
        for (const customer of customers) {
          const request = ofCustomer(`${customer} ${number}`, customer);
          expect(await send(route, request)).toEqual({ status: 200, outcome: "enqueued" });
        }
      // a duplicate keeps its place, and so does other content under the same id
      const changed = ofCustomer("cus_a 1", "cus_b", { amount: 5 });
      expect((await send(route, changed)).outcome).toBe("conflict");
      expect((await send(route, ofCustomer("cus_b 2", "cus_b"))).outcome).toBe("duplicate");

      const begun: string[] = [];
      const running = new Set<string>();
      const dispatcher = createDispatcher({
        store: inbox,
        concurrency: 8,
        handlers: {
          "stripe.*": async ({ messageId, partitionKey }) => {
            expect(running, messageId).not.toContain(partitionKey);
            running.add(String(partitionKey));
            begun.push(messageId);
            await new Promise((resolve) => setImmediate(resolve));
            running.delete(String(partitionKey));
          },
        },
      });
      expect(await dispatcher.run(inbox, timeBudget(120_000))).toMatchObject({ acked: 12 });
      for (const customer of customers)
        expect(begun.filter((id) => id.startsWith(customer))).toEqual(
          [1, 2, 3, 4].map((number) => `${customer} ${number}`),
        );
      expect((await send(route, ofCustomer("cus_a 1", "cus_a"))).outcome).toBe("conflict");
      expect((await send(route, ofCustomer("cus_c 1", "cus_c"))).outcome).toBe("done");
    });
  });
}
