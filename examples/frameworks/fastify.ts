import fastify, { type FastifyInstance } from "fastify";
import type { Shop } from "./shop.js";

export function fastifyServer({ app, placeOrder }: Shop): FastifyInstance {
  const server = fastify();
  // This hook comes before the parsers of bodies: the signature is over the bytes.
  server.addHook("onRequest", (request, reply, done) => app.listener(request.raw, reply.raw, done));
  server.post<{ Body: { id: string } }>("/orders", async (request, reply) => {
    await placeOrder(request.body.id);
    return reply.code(201).send();
  });
  return server;
}
