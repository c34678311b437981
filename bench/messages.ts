import type { IncomingMessage } from "../src/index.js";

export const payloadBytes = 1_024;

const payload = "x".repeat(payloadBytes);

/** As a webhook would come: 1 KB under an id of its own. */
export const message = (id: string): IncomingMessage => ({
  source: "bench",
  messageId: id,
  topic: "order.created",
  payload,
});
