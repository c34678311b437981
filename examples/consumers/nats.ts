import type { Consumer, ConsumerMessages, JsMsg } from "@nats-io/jetstream";
import { consumeOnce, type InboxStore } from "oncebox/inbox-store";
import type { Handle, Order } from "./order.js";

/** JetStream delivers again what was not acknowledged, here after 5 s. */
export function consumeOrders(
  consumer: Consumer,
  store: InboxStore,
  handle: Handle,
): Promise<ConsumerMessages> {
  const once = consumeOnce<Order>(store, { bus: "nats", group: "billing", alias: "order.placed" }, handle);
  const receive = async (message: JsMsg): Promise<void> => {
    const { headers: sent, info } = message;
    const headers = Object.fromEntries(sent?.keys().map((name) => [name, sent.get(name)]) ?? []);
    const messageId = sent?.get("Nats-Msg-Id") || `${info.stream}-${info.streamSequence}`;
    await once({ messageId, headers, body: message.string() }).then(
      () => message.ack(),
      () => message.nak(5_000),
    );
  };
  return consumer.consume({ callback: (message) => void receive(message) });
}
