import type { SQSClient } from "@aws-sdk/client-sqs";
import { loadPackage } from "../base/load-package.js";
import { memoisePromise } from "../base/memoise-promise.js";
import { requirePackage } from "../base/require-package.js";
import { refuseUnknown, requireName } from "../queue/arguments.js";
import { awsBatchPublisher } from "./aws-batch-publisher.js";
import { publisherOptionNames } from "./guarded.js";
import type { Publisher, PublisherOptions } from "./publisher.js";

export interface SqsPublisherOptions extends PublisherOptions {
  readonly queueUrl: string;
  /** Your own client; one with the environment's region and credentials by default. */
  readonly client?: SQSClient;
}

/**
 * Sends to an SQS queue, ten messages per request. On a FIFO queue the partition key is the group and the message id the
 * deduplication id.
 *
 * @example
 * createDispatcher({ store: outbox, handlers: { "order.placed": sqsPublisher({ queueUrl }) } })
 */
export function sqsPublisher(options: SqsPublisherOptions): Publisher {
  refuseUnknown(options, ["queueUrl", "client", ...publisherOptionNames], "sqsPublisher");
  const { queueUrl } = options;
  requireName(queueUrl, "sqsPublisher: queueUrl");
  requirePackage("@aws-sdk/client-sqs", "sqsPublisher");
  const load = () => loadPackage("@aws-sdk/client-sqs", () => import("@aws-sdk/client-sqs"));
  const sdk = memoisePromise(async () => {
    const { SendMessageBatchCommand, SQSClient } = await load();
    return { SendMessageBatchCommand, client: options.client ?? new SQSClient({}) };
  });
  return awsBatchPublisher({
    destination: `The SQS queue ${queueUrl.split("/").at(-1)}`,
    options,
    isFifo: queueUrl.endsWith(".fifo"),
    maxMessageBytes: 1_048_576, // a whole batch has the same limit
    async sendBatch(entries, signal) {
      const { SendMessageBatchCommand, client } = await sdk();
      const batch = entries.map(({ payload, fields }) => ({ ...fields, MessageBody: payload }));
      const command = new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries: batch });
      return client.send(command, { abortSignal: signal });
    },
  });
}
