import { attributeNames } from "../middleware/trigger-message.js";
import type { PublishedMessage } from "./publisher.js";

/** SQS and SNS take ten attributes at most, so the headers travel as one. */
export function awsAttributes(
  message: PublishedMessage,
): Record<string, { DataType: "String"; StringValue: string }> {
  const all: [string, string | null][] = [
    [attributeNames.messageId, message.messageId],
    [attributeNames.topic, message.topic],
    [attributeNames.correlationId, message.correlationId],
    [attributeNames.headers, message.headers === null ? null : JSON.stringify(message.headers)],
  ];
  return Object.fromEntries(
    all.flatMap(([name, value]) =>
      value ? [[name, { DataType: "String" as const, StringValue: value }]] : [],
    ),
  );
}

export const sizeOf = (message: PublishedMessage): number =>
  Buffer.byteLength(message.payload) + Buffer.byteLength(JSON.stringify(message.headers ?? "")) + 1_024;

/** A FIFO destination orders by group; a message without a partition key is a group of its own. */
export const fifoFields = (isFifo: boolean, message: PublishedMessage) =>
  isFifo
    ? { MessageGroupId: message.partitionKey ?? message.messageId, MessageDeduplicationId: message.messageId }
    : {};
