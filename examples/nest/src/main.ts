import "reflect-metadata";
import { Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { TypeOrmModule } from "@nestjs/typeorm";
import { type App, defineApp, env } from "oncebox";
import { ONCEBOX, OnceboxModule } from "./oncebox.module.js";
import { Order, OrdersController, OrdersService } from "./orders.js";

const { DATABASE_URL: url = "", PORT = "3000" } = process.env;

const definition = defineApp({
  database: url,
  logger: false, // in a project of your own, leave it out
  sources: { stripe: { secrets: env("STRIPE_WEBHOOK_SECRET") } },
  handlers: { "stripe.charge.succeeded": ({ messageId }) => ({ topic: "order.paid", payload: messageId }) },
  publishers: { "*": ({ topic, payload }) => console.log(`published ${topic} ${payload}`) },
});

@Module({
  imports: [
    TypeOrmModule.forRoot({ type: "postgres", url, entities: [Order], synchronize: true }),
    OnceboxModule.forRoot(definition),
  ],
  controllers: [OrdersController],
  providers: [OrdersService],
})
class AppModule {}

async function main(): Promise<void> {
  const server = await NestFactory.create(AppModule, { logger: ["error", "warn"] });
  // Before `listen`, and so before Nest's parser of bodies: the signature is over the bytes.
  server.use(server.get<App>(ONCEBOX).listener);
  server.enableShutdownHooks();
  await server.listen(PORT, "127.0.0.1");
  console.log(`listening ${await server.getUrl()}`);
}

void main();
