import express, { type Express } from "express";
import type { Shop } from "./shop.js";

export function expressServer({ app, placeOrder }: Shop): Express {
  const server = express();
  server.use(app.listener); // before express.json: the signature is over the bytes
  server.use(express.json());
  server.post("/orders", async (request, response) => {
    await placeOrder(request.body.id);
    response.status(201).end();
  });
  return server;
}
