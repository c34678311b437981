import { permanentFailure } from "../dispatch/settlement.js";
import { attributeNames } from "../middleware/trigger-message.js";
import { hashedKey } from "./hashed-key.js";
import type { PublishedMessage } from "./publisher.js";

/** SQS and SNS take ten attributes at most, so all headers are one attribute. */
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

/** A FIFO destination orders messages by group. A message without a partition key is a group of its own. */
export const fifoFields = (isFifo: boolean, message: PublishedMessage) =>
  isFifo ? { MessageGroupId: groupOf(message), MessageDeduplicationId: message.messageId } : {};

/** A group's name has at most 128 ASCII characters. A partition key may be any text. */
function groupOf({ partitionKey, messageId }: PublishedMessage): string {
  const key = partitionKey ?? messageId;
  return /^[\x21-\x7e]{1,128}$/.test(key) ? key : hashedKey(key);
}

/** Fails an empty or too large message for good. AWS would refuse it every time, sometimes with its whole batch. */
export function requireBody(message: PublishedMessage, maxBytes: number, destination: string): void {
  if (message.payload === "")
    throw permanentFailure(`The payload is empty. ${destination} takes no empty messages.`);
  requireSize(awsMessageSize(message), maxBytes, destination);
}

/** The bytes that SQS and SNS count: the body, and each attribute's name, type and value. */
export const awsMessageSize = (message: PublishedMessage): number =>
  bytesOf([
    message.payload,
    ...Object.entries(awsAttributes(message)).map(
      ([name, { DataType, StringValue }]) => name + DataType + StringValue,
    ),
  ]);

export const bytesOf = (parts: readonly string[]): number =>
  parts.reduce((bytes, part) => bytes + Buffer.byteLength(part), 0);

export function requireSize(bytes: number, maxBytes: number, destination: string): void {
  if (bytes > maxBytes)
    throw permanentFailure(`${destination} takes at most ${maxBytes / 1_024} KB. The message is larger.`);
}
