import "reflect-metadata";
import { Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { TypeOrmModule } from "@nestjs/typeorm";
import { type WebhookRoute, webhookMiddleware } from "oncebox/webhooks";
import { stripe } from "oncebox/webhooks/stripe";
import { OnceboxModule, WEBHOOKS } from "./oncebox.module.js";
import { Order, OrdersController, OrdersService } from "./orders.js";

const { DATABASE_URL: url = "", STRIPE_WEBHOOK_SECRET: secret = "", PORT = "3000" } = process.env;

@Module({
  imports: [
    TypeOrmModule.forRoot({ type: "postgres", url, entities: [Order], synchronize: true }),
    OnceboxModule.forRoot({
      url,
      sources: { stripe: { scheme: stripe, secrets: [secret] } },
      received: (outbox) => ({
        "stripe.charge.succeeded": {
          transactional: true,
          handle: ({ messageId }, { tx }) =>
            outbox.enqueue({ topic: "order.paid", payload: messageId }, { tx }),
        },
      }),
      sent: { "*": ({ topic, payload }) => console.log(`published ${topic} ${payload}`) },
    }),
  ],
  controllers: [OrdersController],
  providers: [OrdersService],
})
class AppModule {}

async function main(): Promise<void> {
  const app = await NestFactory.create(AppModule, { logger: ["error", "warn"] });
  // Before `listen`, and so before Nest's parser of bodies: the signature is over the bytes.
  app.use(webhookMiddleware(app.get<WebhookRoute>(WEBHOOKS)));
  app.enableShutdownHooks();
  await app.listen(PORT, "127.0.0.1");
  console.log(`listening ${await app.getUrl()}`);
}

void main();
