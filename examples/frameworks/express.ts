import express, { type Express } from "express";
import { webhookMiddleware } from "oncebox/webhooks";
import type { Orders } from "./orders.js";

export function expressApp(orders: Orders): Express {
  const app = express();
  app.use(webhookMiddleware(orders.route)); // before express.json: the signature is over the bytes
  app.use(express.json());
  app.post("/orders", async (request, response) => {
    await orders.place(request.body.id);
    response.status(201).end();
  });
  return app;
}
