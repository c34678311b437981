import {
  DeleteMessageBatchCommand,
  type Message,
  ReceiveMessageCommand,
  SQSClient,
} from "@aws-sdk/client-sqs";
import type { SQSBatchResponse, SQSEvent, SQSRecord } from "aws-lambda";

/** The AWS SDK's client for a local server. */
export const sqsClient = (endpoint: string): SQSClient =>
  new SQSClient({
    endpoint,
    region: "us-east-1",
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
    useQueueUrlAsEndpoint: false,
  });

export interface EventSource {
  readonly client: SQSClient;
  readonly queueUrl: string;
  readonly handler: (event: SQSEvent) => Promise<SQSBatchResponse>;
  /** Handled messages that are not deleted, so that the queue delivers them again. */
  readonly forgets?: (record: SQSRecord) => boolean;
}

/**
 * One poll of Lambda's event source: receives a batch, invokes the function, deletes the messages that it does not report
 * as failed. When the function throws, or returns no report, all messages have failed.
 */
export async function pollOnce(source: EventSource): Promise<number> {
  const { client, queueUrl } = source;
  const received = await client.send(
    new ReceiveMessageCommand({
      QueueUrl: queueUrl,
      MaxNumberOfMessages: 10,
      MessageAttributeNames: ["All"],
      MessageSystemAttributeNames: ["All"],
    }),
  );
  const messages = received.Messages ?? [];
  if (messages.length === 0) return 0;
  const arn = `arn:aws:sqs:us-east-1:000000000000:${queueUrl.split("/").at(-1)}`;
  const event: SQSEvent = { Records: messages.map((message) => toRecord(message, arn)) };
  const response = await source.handler(event).catch(() => undefined);
  if (!Array.isArray(response?.batchItemFailures)) return messages.length;
  const failed = new Set(response.batchItemFailures.map((failure) => failure.itemIdentifier));
  const done = event.Records.filter((record) => !failed.has(record.messageId) && !source.forgets?.(record));
  if (done.length > 0) {
    const entries = done.map((record, index) => ({ Id: String(index), ReceiptHandle: record.receiptHandle }));
    await client.send(new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries: entries }));
  }
  return messages.length;
}

function toRecord(message: Message, arn: string): SQSRecord {
  const sent = Object.entries(message.MessageAttributes ?? {}).map(([name, { StringValue, DataType }]) => [
    name,
    { stringValue: StringValue, dataType: DataType },
  ]);
  return {
    messageId: message.MessageId!,
    receiptHandle: message.ReceiptHandle!,
    body: message.Body ?? "",
    attributes: message.Attributes as unknown as SQSRecord["attributes"],
    messageAttributes: Object.fromEntries(sent) as SQSRecord["messageAttributes"],
    md5OfBody: message.MD5OfBody ?? "",
    eventSource: "aws:sqs",
    eventSourceARN: arn,
    awsRegion: "us-east-1",
  };
}
