import * as z from "zod/mini";
import { command, defineMessages, signal } from "../../../src/messaging/index.js";

export const messages = defineMessages({
  /** To the functions. */
  Reserve: command(z.object({ item: z.string() }), z.object({ reservation: z.string() })),
  /** From the functions. */
  Note: signal(z.object({ number: z.number() })),
});
