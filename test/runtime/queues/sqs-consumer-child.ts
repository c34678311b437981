/**
 * A consumer that may be killed at any moment. It polls the orders as Lambda's event source does, with all three
 * middleware around the handler, and publishes the outbox. Three in ten deletions are left out, so that SQS delivers again.
 */
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { sqsHandler } from "../../../src/adapters/aws/middleware.js";
import {
  createDispatcher,
  createOutbox,
  type OutboxMessage,
  statement,
  timeBudget,
} from "../../../src/index.js";
import {
  compose,
  currentTransaction,
  inbox,
  outbox,
  type TriggerMessage,
  transaction,
} from "../../../src/middleware/index.js";
import { sqsPublisher } from "../../../src/publishers/index.js";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { pollOnce, sqsClient } from "./event-source.js";

const [url, schema, endpoint, ordersUrl, eventsUrl] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string,
];

const db = openPostgres({ url, maxConnections: 8 });
const client = sqsClient(endpoint);
const placeOrder = statement("place order", `insert into ${schema}.orders (body) values (:body)`);

const handler = sqsHandler({
  concurrency: 5,
  handle: compose<TriggerMessage>(
    [transaction(db), inbox({ subscriber: "orders", schema }), outbox({ schema })],
    async ({ payload }) => {
      await currentTransaction()!.query(placeOrder, { body: payload });
      return { topic: "order.placed", payload };
    },
  ),
});

/** Only the first delivery is not deleted; the second one is. */
const forgets = (record: { messageId: string; attributes: { ApproximateReceiveCount: string } }): boolean =>
  record.attributes.ApproximateReceiveCount === "1" &&
  createHash("sha256").update(record.messageId).digest().readUInt32BE() < 0.3 * 2 ** 32;

const noteAgain = statement("note", `insert into ${schema}.again (id) values (:id) on conflict do nothing`);
/** Records redeliveries, for the test to count. */
const noting: typeof handler = async (event) => {
  for (const { attributes, messageId } of event.Records)
    if (attributes.ApproximateReceiveCount !== "1") await db.driver.query(noteAgain, { id: messageId });
  return handler(event);
};

const consume = async (): Promise<void> => {
  for (;;) {
    if ((await pollOnce({ client, queueUrl: ordersUrl, handler: noting, forgets })) === 0) await sleep(50);
  }
};

const store = createOutbox(db, { schema, retry: { baseMs: 50, factor: 1 } });
const dispatcher = createDispatcher<OutboxMessage>({
  concurrency: 100,
  batchSize: 100,
  leaseMs: 1_500,
  handlers: { "order.placed": sqsPublisher({ queueUrl: eventsUrl, client }) },
});
const publish = async (): Promise<void> => {
  for (;;) {
    const { acked } = await dispatcher.run(store, timeBudget(60_000));
    if (acked === 0) await sleep(50);
  }
};

console.log("ready");
await Promise.all([consume(), consume(), publish()]);
