/** The messages between the two services. Both import this file. */
import { command, defineMessages, signal } from "oncebox/messaging";
import { z } from "zod";

export const messages = defineMessages({
  ReserveStock: command(
    z.object({ orderId: z.string(), quantity: z.number().int().positive() }),
    z.object({ orderId: z.string(), left: z.number() }),
  ),
  OrderShipped: signal(z.object({ orderId: z.string() })),
});

/** Base64 of 16 bytes or more. A real service reads it from its environment. */
export const secret = "c2VjcmV0IG9mIHRoZSBleGFtcGxl";
