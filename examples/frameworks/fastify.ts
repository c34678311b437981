import fastify, { type FastifyInstance } from "fastify";
import { webhookMiddleware } from "oncebox/webhooks";
import type { Orders } from "./orders.js";

export function fastifyApp(orders: Orders): FastifyInstance {
  const app = fastify();
  const webhooks = webhookMiddleware(orders.route);
  // This hook comes before the parsers of bodies: the signature is over the bytes.
  app.addHook("onRequest", (request, reply, done) => webhooks(request.raw, reply.raw, done));
  app.post<{ Body: { id: string } }>("/orders", async (request, reply) => {
    await orders.place(request.body.id);
    return reply.code(201).send();
  });
  return app;
}
