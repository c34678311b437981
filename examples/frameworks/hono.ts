import { Hono } from "hono";
import type { Shop } from "./shop.js";

export function honoServer({ app, placeOrder }: Shop): Hono {
  const server = new Hono();
  server.post("/orders", async (context) => {
    const { id } = await context.req.json<{ id: string }>();
    await placeOrder(id);
    return context.body(null, 201);
  });
  server.all("*", (context) => app.fetch(context.req.raw)); // last: it answers 404 to what it does not know
  return server;
}
