/** The sender: places orders, each with a message to the inventory, and notes the responses and the messages that are dead. */
import { createService, type Transport } from "../../../src/messaging/index.js";
import { httpTransport } from "../../../src/messaging/transports/http-transport.js";
import { childSetup, secret } from "./child-setup.js";

const { settings, db, peer, point, insert, run } = childSetup("orders", [
  "orders",
  "responses",
  "cancellations",
]);

const http = httpTransport();
const transport: Transport = {
  ...http,
  async send(message, destination, call) {
    await point("before the send");
    const response = await http.send(message, destination, call);
    await point("after the acknowledgement");
    return response;
  },
};

const service = createService({
  ...settings,
  db,
  destinations: { inventory: { address: peer, secrets: [secret], transport } },
  onResponse: {
    ReserveStock: ({ reservedFor }, { tx }) => insert(tx, "responses", reservedFor),
  },
  async onDead({ payload, state }) {
    const { orderId } = payload as { orderId: string };
    await insert(db.driver, "cancellations", `${orderId} ${state}`);
  },
});

await run(service, {
  "/place": (orderId) =>
    service.transaction(async (tx) => {
      await insert(tx, "orders", orderId);
      await point("before the outbox write");
      const messageId = await service.send.ReserveStock("inventory", { orderId }, { tx });
      await point("before the commit");
      return messageId;
    }),
  "/retry": (messageId) => service.retry(messageId),
});
