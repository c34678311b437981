import { Hono } from "hono";
import type { Orders } from "./orders.js";

export function honoApp(orders: Orders): Hono {
  const app = new Hono();
  app.all("/webhooks/*", (context) => orders.route(context.req.raw));
  app.post("/orders", async (context) => {
    const { id } = await context.req.json<{ id: string }>();
    await orders.place(id);
    return context.body(null, 201);
  });
  return app;
}
