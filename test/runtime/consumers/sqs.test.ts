import { SendMessageCommand, type SQSClient } from "@aws-sdk/client-sqs";
import { startFauxqs } from "fauxqs";
import { describe } from "vitest";
import type { LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { sqsClient } from "../queues/event-source.js";
import { consumerSuite, exampleOf, type Handle } from "./consumer-suite.js";

type Consume = (
  sqs: SQSClient,
  queueUrl: string,
  store: LeasingInboxStore,
  handle: Handle,
  stop: AbortSignal,
) => Promise<void>;

describe("examples/consumers: SQS, behind the AWS SDK", () => {
  consumerSuite(async () => {
    const server = await startFauxqs({ port: 0, logger: false });
    const { queueUrl } = server.createQueue("orders", { attributes: { VisibilityTimeout: "1" } });
    const sqs = sqsClient(server.address);
    const stopping = new AbortController();
    let consuming: Promise<void> | undefined;
    return {
      async send({ messageId, body, idempotencyKey }) {
        // SQS gives every sending an id of its own, so the sender's id has to be an attribute.
        const StringValue = idempotencyKey ?? messageId;
        const MessageAttributes = { "idempotency-key": { DataType: "String", StringValue } };
        await sqs.send(new SendMessageCommand({ QueueUrl: queueUrl, MessageBody: body, MessageAttributes }));
      },
      async consume(store, handle) {
        const consume = await exampleOf<Consume>("sqs");
        consuming = consume(sqs, queueUrl, store, handle, stopping.signal).catch(() => {}); // the abort
      },
      async close() {
        stopping.abort();
        await consuming;
        await server.stop();
      },
    };
  });
});
