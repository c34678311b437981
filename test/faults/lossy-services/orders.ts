import { z } from "zod";
import { command, defineMessages, signal } from "../../../src/messaging/index.js";

/** The messages of one order. They are sent in the transaction that writes the order. */
export const messages = defineMessages({
  OrderApproved: signal(z.object({ order: z.int() })),
  ReserveStock: command(z.object({ order: z.int() }), z.object({ reservation: z.string() })),
});

export const messagesOfOrder = 2;

export const correlationOf = (order: number): string => `order ${order}`;

export const reservationOf = (order: number): string => `shelf ${order * 7}`;
