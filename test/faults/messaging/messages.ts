import { z } from "zod";
import { command, defineMessages, signal } from "../../../src/messaging/index.js";

/** What is sent for each order. A receiver records a command after its handler, and a signal before it. */
export type Kind = "command" | "signal";

export const messages = defineMessages({
  OrderPlaced: signal(z.object({ orderId: z.string() })),
  ReserveStock: command(z.object({ orderId: z.string() }), z.object({ reservedFor: z.string() })),
});

export const secret = Buffer.alloc(24, 7).toString("base64");
