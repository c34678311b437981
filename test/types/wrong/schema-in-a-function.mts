import { defineApp } from "oncebox";
import { z } from "zod";

export default defineApp({
  handlers: () => ({
    "order.placed": { schema: z.object({ id: z.string() }), handle: () => {} },
  }),
});
