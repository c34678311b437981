import { z } from "zod";
import { command, defineMessages } from "../../../src/messaging/index.js";

export const messages = defineMessages({
  ReserveStock: command(z.object({ orderId: z.string() }), z.object({ reservedFor: z.string() })),
});

export const secret = Buffer.alloc(24, 7).toString("base64");
