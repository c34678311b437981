import type { SNSClient } from "@aws-sdk/client-sns";
import { loadPackage } from "../base/load-package.js";
import { memoisePromise } from "../base/memoise-promise.js";
import { requirePackage } from "../base/require-package.js";
import { refuseUnknown, requireName } from "../queue/arguments.js";
import { awsBatchPublisher } from "./aws-batch-publisher.js";
import { publisherOptionNames } from "./guarded.js";
import type { Publisher, PublisherOptions } from "./publisher.js";

export interface SnsPublisherOptions extends PublisherOptions {
  readonly topicArn: string;
  /** Your own client; one with the environment's region and credentials by default. */
  readonly client?: SNSClient;
}

/**
 * Publishes to an SNS topic, ten messages per request. On a FIFO topic the partition key is the group and the message id
 * the deduplication id.
 *
 * @example
 * createDispatcher({ store: outbox, handlers: { "order.placed": snsPublisher({ topicArn }) } })
 */
export function snsPublisher(options: SnsPublisherOptions): Publisher {
  refuseUnknown(options, ["topicArn", "client", ...publisherOptionNames], "snsPublisher");
  const { topicArn } = options;
  requireName(topicArn, "snsPublisher: topicArn");
  requirePackage("@aws-sdk/client-sns", "snsPublisher");
  const load = () => loadPackage("@aws-sdk/client-sns", () => import("@aws-sdk/client-sns"));
  const sdk = memoisePromise(async () => {
    const { PublishBatchCommand, SNSClient } = await load();
    return { PublishBatchCommand, client: options.client ?? new SNSClient({}) };
  });
  return awsBatchPublisher({
    destination: `The SNS topic ${topicArn.split(":").at(-1)}`,
    options,
    isFifo: topicArn.endsWith(".fifo"),
    maxMessageBytes: 262_144,
    async sendBatch(entries, signal) {
      const { PublishBatchCommand, client } = await sdk();
      const batch = entries.map(({ payload, fields }) => ({ ...fields, Message: payload }));
      const command = new PublishBatchCommand({ TopicArn: topicArn, PublishBatchRequestEntries: batch });
      return client.send(command, { abortSignal: signal });
    },
  });
}
