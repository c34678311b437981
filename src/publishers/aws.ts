import type { EventBridgeClient } from "@aws-sdk/client-eventbridge";
import type { SNSClient } from "@aws-sdk/client-sns";
import type { SQSClient } from "@aws-sdk/client-sqs";
import { omitUndefined } from "../base/defined.js";
import { requirePackage } from "../base/require-package.js";
import { permanentFailure } from "../dispatch/settlement.js";
import { attributeNames } from "../middleware/consume.js";
import { refuseUnknown, requireName } from "../queue/arguments.js";
import { attributesOf } from "../queue/attributes.js";
import { microBatch, notSent, type Sent, sendOrSplit, sent } from "./micro-batch.js";
import {
  hashedKey,
  type PublishedMessage,
  type Publisher,
  type PublisherOptions,
  publisherOptionNames,
  publishTo,
  typeOf,
} from "./publisher.js";

/** Options of a publisher to SQS. */
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
  let { client } = options;
  return awsBatchPublisher({
    destination: `The SQS queue ${queueUrl.split("/").at(-1)}`,
    options,
    isFifo: queueUrl.endsWith(".fifo"),
    maxMessageBytes: 1_048_576, // a whole batch has the same limit
    async sendBatch(entries, signal) {
      const { SendMessageBatchCommand, SQSClient } = await import("@aws-sdk/client-sqs");
      client ??= new SQSClient({});
      const batch = entries.map(({ payload, fields }) => ({ ...fields, MessageBody: payload }));
      const command = new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries: batch });
      return client.send(command, { abortSignal: signal });
    },
  });
}

/** Options of a publisher to SNS. */
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
  let { client } = options;
  return awsBatchPublisher({
    destination: `The SNS topic ${topicArn.split(":").at(-1)}`,
    options,
    isFifo: topicArn.endsWith(".fifo"),
    maxMessageBytes: 262_144,
    async sendBatch(entries, signal) {
      const { PublishBatchCommand, SNSClient } = await import("@aws-sdk/client-sns");
      client ??= new SNSClient({});
      const batch = entries.map(({ payload, fields }) => ({ ...fields, Message: payload }));
      const command = new PublishBatchCommand({ TopicArn: topicArn, PublishBatchRequestEntries: batch });
      return client.send(command, { abortSignal: signal });
    },
  });
}

/** Options of a publisher to EventBridge. */
export interface EventBridgePublisherOptions extends PublisherOptions {
  /** The event's source, such as "com.example.orders"; that of CloudEvents, too. */
  readonly source: string;
  /** "default" by default. */
  readonly eventBusName?: string;
  /** Your own client; one with the environment's region and credentials by default. */
  readonly client?: EventBridgeClient;
}

/** The limit of an event, and of a whole request. */
const maxEventBytes = 262_144;

/** EventBridge would refuse these events every time. */
const contentFaults = ["MalformedDetail", "InvalidArgument"];

/**
 * Puts events on an EventBridge bus, ten per request. The message's type is the detail type, and the payload, which must be a
 * JSON object, is the detail. EventBridge has no field for a sender's id: put it into the payload if receivers need it.
 *
 * @example
 * createDispatcher({ store: outbox, handlers: { "order.placed": eventBridgePublisher({ source: "com.example.orders" }) } })
 */
export function eventBridgePublisher(options: EventBridgePublisherOptions): Publisher {
  refuseUnknown(options, ["eventBusName", "client", ...publisherOptionNames], "eventBridgePublisher");
  const { source, eventBusName = "default" } = options;
  requireName(source, "eventBridgePublisher: source");
  requirePackage("@aws-sdk/client-eventbridge", "eventBridgePublisher");
  let { client } = options;
  const sizeOf = (message: PublishedMessage): number => bytesOf([source, typeOf(message), message.payload]);
  const send = microBatch<PublishedMessage>({
    maxItems: 10,
    maxBytes: maxEventBytes,
    bytesOf: sizeOf,
    async send(messages, signal) {
      const { EventBridgeClient, PutEventsCommand } = await import("@aws-sdk/client-eventbridge");
      client ??= new EventBridgeClient({});
      const entries = messages.map((message) => ({
        Source: source,
        EventBusName: eventBusName,
        DetailType: typeOf(message),
        Detail: message.payload,
        ...omitUndefined({ TraceHeader: message.headers?.["x-amzn-trace-id"] }),
      }));
      const response = await client.send(new PutEventsCommand({ Entries: entries }), { abortSignal: signal });
      return messages.map((_, index) => {
        const { EventId: id, ErrorCode: code } = response.Entries?.[index] ?? {};
        if (id) return sent;
        const text = `EventBridge refused the event: ${code ?? "no outcome reported"}.`;
        return notSent(contentFaults.includes(code ?? "") ? permanentFailure(text) : new Error(text));
      });
    },
  });
  const { source: _, ...others } = options; // that of EventBridge itself, where no CloudEvents are sent
  const given = options.format === undefined ? others : options;
  return publishTo(`EventBridge ${eventBusName}`, given, async (message, { signal }) => {
    requireJsonObject(message);
    requireSize(sizeOf(message), maxEventBytes, "EventBridge");
    await send(message, signal);
  });
}

function requireJsonObject(message: PublishedMessage): void {
  try {
    const parsed: unknown = JSON.parse(message.payload);
    if (typeof parsed === "object" && parsed !== null && !Array.isArray(parsed)) return;
  } catch {
    // the error below does not quote the payload
  }
  throw permanentFailure("The payload is not a JSON object. EventBridge takes nothing else.");
}

interface AwsBatchEntry {
  readonly payload: string;
  /** The same for SQS and SNS. */
  readonly fields: ReturnType<typeof fieldsOf>;
}

interface AwsBatchPublisherOptions {
  /** The destination's name in errors. */
  readonly destination: string;
  readonly options: PublisherOptions;
  readonly isFifo: boolean;
  /** The limit for payload and attributes of one message. */
  readonly maxMessageBytes: number;
  readonly sendBatch: (entries: readonly AwsBatchEntry[], signal: AbortSignal) => Promise<BatchResponse>;
}

/** What SQS and SNS have in common: ten messages per request, attributes, FIFO groups, an outcome for each entry. */
function awsBatchPublisher(settings: AwsBatchPublisherOptions): Publisher {
  const { destination, options, isFifo, maxMessageBytes, sendBatch } = settings;
  const sendAll = async (messages: readonly PublishedMessage[], signal: AbortSignal) => {
    const entries = messages.map((message, index) => ({
      payload: message.payload,
      fields: fieldsOf(message, index, isFifo),
    }));
    return batchOutcomes(messages.length, await sendBatch(entries, signal), destination);
  };
  const send = microBatch<PublishedMessage>({
    maxItems: 10,
    maxBytes: 262_144,
    bytesOf: awsMessageSize,
    send: (messages, signal) => sendOrSplit(messages, isContentFault, (some) => sendAll(some, signal)),
  });
  return publishTo(destination, options, async (message, { signal }) => {
    requireBody(message, maxMessageBytes, destination);
    await send(message, signal);
  });
}

/** AWS refused the request for what its messages hold, not for what the queue or topic is. */
const isContentFault = (error: unknown): boolean =>
  /^(BatchRequestTooLong|InvalidMessageContents)(Exception)?$/.test((error as Error | undefined)?.name ?? "");

/** A FIFO destination orders messages by group. A message without a partition key is a group of its own. */
const fieldsOf = (message: PublishedMessage, index: number, isFifo: boolean) => ({
  Id: String(index),
  MessageAttributes: awsAttributes(message),
  ...(isFifo && { MessageGroupId: groupOf(message), MessageDeduplicationId: message.messageId }),
});

/** SQS and SNS take ten attributes at most, so all headers are one attribute. */
function awsAttributes(
  message: PublishedMessage,
): Record<string, { DataType: "String"; StringValue: string }> {
  const all: [string, string | null][] = [
    [attributeNames.messageId, message.messageId],
    [attributeNames.topic, message.topic],
    [attributeNames.type, typeOf(message)],
    [attributeNames.correlationId, message.correlationId],
    [attributeNames.headers, message.headers === null ? null : JSON.stringify(attributesOf(message))],
  ];
  return Object.fromEntries(
    all.flatMap(([name, value]) =>
      value ? [[name, { DataType: "String" as const, StringValue: value }]] : [],
    ),
  );
}

/** A group's name has at most 128 ASCII characters. A partition key may be any text. */
function groupOf({ partitionKey, messageId }: PublishedMessage): string {
  const key = partitionKey ?? messageId;
  return /^[\x21-\x7e]{1,128}$/.test(key) ? key : hashedKey(key);
}

/** Fails an empty or too large message for good. AWS would refuse it every time, sometimes with its whole batch. */
function requireBody(message: PublishedMessage, maxBytes: number, destination: string): void {
  if (message.payload === "")
    throw permanentFailure(`The payload is empty. ${destination} takes no empty messages.`);
  requireSize(awsMessageSize(message), maxBytes, destination);
}

/** The bytes that SQS and SNS count: the body, and each attribute's name, type and value. */
const awsMessageSize = (message: PublishedMessage): number =>
  bytesOf([
    message.payload,
    ...Object.entries(awsAttributes(message)).map(
      ([name, { DataType, StringValue }]) => name + DataType + StringValue,
    ),
  ]);

const bytesOf = (parts: readonly string[]): number =>
  parts.reduce((bytes, part) => bytes + Buffer.byteLength(part), 0);

function requireSize(bytes: number, maxBytes: number, destination: string): void {
  if (bytes > maxBytes)
    throw permanentFailure(`${destination} takes at most ${maxBytes / 1_024} KB. The message is larger.`);
}

interface BatchResponse {
  readonly Failed?:
    | readonly { Id?: string | undefined; Code?: string | undefined; SenderFault?: boolean | undefined }[]
    | undefined;
  readonly Successful?: readonly { Id?: string | undefined }[] | undefined;
}

/** The outcome of each entry of an SQS or SNS batch. A sender fault, such as a forbidden character, is permanent. */
function batchOutcomes(count: number, response: BatchResponse, destination: string): readonly Sent[] {
  const accepted = new Set(response.Successful?.map((entry) => entry.Id));
  const failed = new Map(response.Failed?.map((entry) => [entry.Id, entry]));
  return Array.from({ length: count }, (_, index) => {
    if (accepted.has(String(index))) return sent;
    const { Code: code = "no outcome reported", SenderFault: isPermanent = false } =
      failed.get(String(index)) ?? {};
    const text = `${destination} refused the message: ${code}.`;
    return notSent(isPermanent ? permanentFailure(text) : new Error(text));
  });
}
