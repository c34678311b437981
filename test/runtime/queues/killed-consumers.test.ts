import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { ReceiveMessageCommand, SendMessageBatchCommand } from "@aws-sdk/client-sqs";
import { startFauxqs } from "fauxqs";
import { expect, inject, it } from "vitest";
import { createOutbox, migrate } from "../../../src/index.js";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { bundleChild } from "../../support/bundled-child.js";
import { times } from "../../support/times.js";
import { sqsClient } from "./event-source.js";

const url = inject("postgresUrl");
const messages = times(500);
const kills = Math.max(4, Math.round(messages / 500));

const child = fileURLToPath(new URL("sqs-consumer-child.ts", import.meta.url));

/** Resolves when the consumer has started to work. */
async function startConsumer(path: string, ...args: string[]): Promise<ChildProcess> {
  const consumer = spawn(process.execPath, ["--no-warnings", path, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exits = once(consumer, "exit").then(() => Promise.reject(new Error("The consumer ended by itself.")));
  exits.catch(() => {});
  await Promise.race([once(consumer.stdout!, "data"), exits]);
  return consumer;
}

async function kill(consumer: ChildProcess): Promise<void> {
  const ended = once(consumer, "exit");
  consumer.kill("SIGKILL");
  await ended;
}

it("MID-08 MID-11 MID-09 redelivered messages and killed consumers: every order once, every event once", async () => {
  const bundled = await bundleChild(child);
  const server = await startFauxqs({ port: 0, logger: false });
  const schema = `sqs_${randomUUID().slice(0, 8)}`;
  const db = openPostgres({ url });
  const raw = (text: string) => db.driver.query({ name: "raw", text, unprepared: true }, {});
  const client = sqsClient(server.address);
  const running: ChildProcess[] = [];
  try {
    await migrate(db, { schema });
    await raw(`create table ${schema}.orders (body text not null)`);
    await raw(`create table ${schema}.again (id text primary key)`);
    const orders = server.createQueue("orders", { attributes: { VisibilityTimeout: "2" } });
    const events = server.createQueue("events.fifo", { attributes: { FifoQueue: "true" } });
    for (let first = 0; first < messages; first += 10) {
      const entries = Array.from({ length: 10 }, (_, index) => ({
        Id: `${index}`,
        MessageBody: `${first + index}`,
      }));
      await client.send(new SendMessageBatchCommand({ QueueUrl: orders.queueUrl, Entries: entries }));
    }

    const args = [url, schema, server.address, orders.queueUrl, events.queueUrl];
    const placedSoFar = async () => Number((await raw(`select count(*) as n from ${schema}.orders`))[0]!.n);
    for (let killed = 0; killed < kills; killed++) {
      const consumer = await startConsumer(bundled.path, ...args);
      running.push(consumer);
      // at a random point of its part of the work
      const enough = ((killed + Math.random()) * messages) / (kills + 1);
      while ((await placedSoFar()) < enough) await sleep(5 + Math.random() * 20);
      await kill(consumer);
    }
    running.push(await startConsumer(bundled.path, ...args));
    const store = createOutbox(db, { schema });
    const isFinished = async () => {
      const { counts } = await store.stats();
      const { messages: waiting } = server.inspectQueue("orders")!;
      const left = waiting.ready.length + waiting.delayed.length + waiting.inflight.length;
      return left === 0 && counts.Ready + counts.InProgress === 0;
    };
    while (!(await isFinished())) {
      if (running.at(-1)!.exitCode !== null) throw new Error("The consumer ended by itself.");
      await sleep(100);
    }
    await kill(running.at(-1)!);

    const [placed] = await raw(
      `select count(*)::int as n, count(distinct body)::int as different from ${schema}.orders`,
    );
    expect(placed).toEqual({ n: messages, different: messages });
    const [again] = await raw(`select count(*)::int as n from ${schema}.again`);
    expect(again!.n).toBeGreaterThan(messages * 0.2); // three in ten, and the messages of killed consumers
    const [seen] = await raw(
      `select count(*)::int as n, sum(case when processed_at is not null then 1 else 0 end)::int as done from ${schema}.inbox_done`,
    );
    expect(seen).toEqual({ n: messages, done: messages });
    expect((await store.stats()).counts).toMatchObject({ Done: messages, Failed: 0 });
    expect(await drain(client, events.queueUrl)).toEqual(
      Array.from({ length: messages }, (_, index) => index),
    );
  } finally {
    for (const consumer of running) consumer.kill("SIGKILL");
    await raw(`drop schema if exists ${schema} cascade`);
    await db.close();
    await server.stop();
    await bundled.remove();
  }
}, 600_000);

/** The numbers in all messages of the queue, sorted. */
async function drain(client: ReturnType<typeof sqsClient>, queueUrl: string): Promise<readonly number[]> {
  const numbers: number[] = [];
  for (;;) {
    const { Messages: batch = [] } = await client.send(
      new ReceiveMessageCommand({ QueueUrl: queueUrl, MaxNumberOfMessages: 10 }),
    );
    if (batch.length === 0) return numbers.sort((a, b) => a - b);
    numbers.push(...batch.map((message) => Number(message.Body)));
  }
}
