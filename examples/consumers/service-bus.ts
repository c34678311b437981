import type { ServiceBusReceiver } from "@azure/service-bus";
import { consumeOnce, type InboxStore } from "oncebox/inbox-store";
import type { Handle, Order } from "./order.js";

/** The SDK completes a message when its handler resolves, and abandons it when it rejects. */
export function consumeOrders(receiver: ServiceBusReceiver, store: InboxStore, handle: Handle) {
  const once = consumeOnce<Order>(
    store,
    { bus: "service-bus", group: "billing", alias: "order.placed" },
    handle,
  );
  return receiver.subscribe({
    async processMessage({ messageId, applicationProperties, body }) {
      await once({ messageId, headers: applicationProperties, body: String(body) });
    },
    processError: async ({ error }) => console.error(error.name),
  });
}
