import type { ServiceBusMessage, ServiceBusSender } from "@azure/service-bus";
import type { QueueClient } from "@azure/storage-queue";
import { permanentFailure } from "../dispatch/settlement.js";
import { InvalidArgumentError } from "../errors.js";
import { attributeNames } from "../middleware/consume.js";
import { refuseUnknown } from "../queue/arguments.js";
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

/** Options of a publisher to Service Bus. */
export interface ServiceBusPublisherOptions extends PublisherOptions {
  /** `new ServiceBusClient(…).createSender("orders")`. */
  readonly sender: Pick<ServiceBusSender, "sendMessages" | "createMessageBatch"> &
    Partial<Pick<ServiceBusSender, "entityPath">>;
  /** Messages in one request: 100 by default. */
  readonly maxBatch?: number;
}

/** A batch may have 256 KB on the standard tier. A message larger than this is sent in a request of its own. */
const largeBytes = 200_000;

/**
 * Sends to a Service Bus queue or topic, many messages in one batch. The partition key becomes the session, and the
 * message id is the id of duplicate detection. A key of more than 128 characters, the limit of a session, is hashed.
 * Service Bus takes a batch as a whole or not at all, so each session has batches of its own.
 *
 * @example
 * createDispatcher({ store: outbox, handlers: { "order.placed": serviceBusPublisher({ sender: client.createSender("orders") }) } })
 */
export function serviceBusPublisher(options: ServiceBusPublisherOptions): Publisher {
  refuseUnknown(options, ["sender", "maxBatch", ...publisherOptionNames], "serviceBusPublisher");
  const { sender, maxBatch = 100 } = options;
  if (typeof sender?.sendMessages !== "function" || typeof sender.createMessageBatch !== "function")
    throw new InvalidArgumentError("serviceBusPublisher: sender must be a ServiceBusSender.");

  const sendTogether = async (
    messages: readonly PublishedMessage[],
    abortSignal: AbortSignal,
  ): Promise<readonly Sent[]> => {
    const all = messages.map(toServiceBus);
    await sender.sendMessages(all.length === 1 ? all[0]! : all, { abortSignal });
    return messages.map(() => sent);
  };
  const send = microBatch<PublishedMessage>({
    maxItems: maxBatch,
    maxBytes: largeBytes,
    bytesOf: serviceBusSize,
    async send(messages, signal) {
      const outcomes = new Map<PublishedMessage, Sent>();
      const sendAll = [...bySession(messages).values()].map(async (session) => {
        const ends = await sendOrSplit(session, isContentFault, (some) => sendTogether(some, signal)).catch(
          (error: unknown) => session.map(() => notSent(error)),
        );
        for (const [index, message] of session.entries()) outcomes.set(message, ends[index]!);
      });
      await Promise.all(sendAll);
      return messages.map((message) => outcomes.get(message)!);
    },
  });
  // Checked before sending: Service Bus would close the connection, and fail the other messages on it too.
  const refuseTooLarge = async (message: PublishedMessage, abortSignal: AbortSignal): Promise<void> => {
    if (serviceBusSize(message) <= largeBytes) return;
    const batch = await sender.createMessageBatch({ abortSignal });
    if (!batch.tryAddMessage(toServiceBus(message)))
      throw permanentFailure("The message is larger than Service Bus takes.");
  };
  return publishTo(`Service Bus ${sender.entityPath ?? ""}`.trim(), options, async (message, { signal }) => {
    await refuseTooLarge(message, signal);
    await send(message, signal);
  });
}

/** The SDK refused a message before it sent anything, or the service found it too large. */
function isContentFault(error: unknown): boolean {
  const { code, message = "" } = (error ?? {}) as { readonly code?: unknown; readonly message?: string };
  return code === "MessageSizeExceeded" || error instanceof TypeError || message.startsWith("Length of '");
}

/** A partitioned queue refuses a batch whose messages belong to different sessions. */
function bySession(messages: readonly PublishedMessage[]): Map<string, PublishedMessage[]> {
  const sessions = new Map<string, PublishedMessage[]>();
  for (const message of messages) {
    const session = message.partitionKey ?? "";
    sessions.set(session, [...(sessions.get(session) ?? []), message]);
  }
  return sessions;
}

function toServiceBus(message: PublishedMessage): ServiceBusMessage {
  const { messageId, topic, payload, headers, correlationId, partitionKey } = message;
  return {
    messageId,
    subject: typeOf(message),
    body: Buffer.from(payload, "utf8"), // a string would arrive wrapped in an AMQP type
    contentType: headers?.["content-type"] ?? "application/json",
    applicationProperties: {
      [attributeNames.topic]: topic,
      ...(headers === null ? {} : { [attributeNames.headers]: JSON.stringify(attributesOf(message)) }),
    },
    ...(correlationId === null ? {} : { correlationId }),
    ...(partitionKey ? { sessionId: sessionOf(partitionKey) } : {}),
  };
}

const sessionOf = (key: string): string => (key.length > 128 ? hashedKey(key) : key);

/**
 * An upper bound of a message's bytes in a request: payload, headers, and 3 KB for the other fields. Topic, type and
 * correlation id have at most 255 characters of 3 bytes each.
 */
const serviceBusSize = (message: PublishedMessage): number =>
  Buffer.byteLength(message.payload) + Buffer.byteLength(JSON.stringify(message.headers ?? "")) + 3_072;

/** Options of a publisher to a storage queue. */
export interface StorageQueuePublisherOptions extends PublisherOptions {
  /** A `QueueClient` of `@azure/storage-queue`. */
  readonly queue: Pick<QueueClient, "sendMessage"> & Partial<Pick<QueueClient, "name">>;
  /**
   * Sends only the payload. By default it is in an envelope with id, topic, type and headers, which `storageQueueHandler` reads. A
   * CloudEvent is sent by itself, unless this is false.
   */
  readonly bare?: boolean;
}

/** The limit of a Storage queue's message, in base64. */
const maxStorageQueueBytes = 65_536;

/**
 * Sends to a Storage queue, in base64, as Azure Functions expects.
 *
 * @example
 * createDispatcher({ store: outbox, handlers: { "order.placed": storageQueuePublisher({ queue: service.getQueueClient("orders") }) } })
 */
export function storageQueuePublisher(options: StorageQueuePublisherOptions): Publisher {
  refuseUnknown(options, ["queue", "bare", ...publisherOptionNames], "storageQueuePublisher");
  const { queue, format, bare = format !== undefined } = options;
  if (typeof queue?.sendMessage !== "function")
    throw new InvalidArgumentError("storageQueuePublisher: queue must be a QueueClient.");
  return publishTo(`The Storage queue ${queue.name ?? ""}`.trim(), options, async (message, { signal }) => {
    const text = Buffer.from(bare ? message.payload : toEnvelope(message), "utf8").toString("base64");
    if (text.length > maxStorageQueueBytes)
      throw permanentFailure("The message is larger than 48 KB, the limit of a Storage queue.");
    await queue.sendMessage(text, { abortSignal: signal });
  });
}

/** A message with its fields in one body, for queues whose messages have no attributes. */
export interface Envelope {
  readonly messageId: string;
  readonly topic: string;
  readonly type?: string | undefined;
  readonly payload: string;
  readonly headers: Record<string, string> | null;
  readonly correlationId: string | null;
}

const envelopeMark = "oncebox";

export const toEnvelope = (message: PublishedMessage): string =>
  JSON.stringify({
    [envelopeMark]: 1,
    messageId: message.messageId,
    topic: message.topic,
    type: typeOf(message),
    correlationId: message.correlationId,
    headers: message.headers,
    payload: message.payload,
  });

/** Returns undefined when the text is not an envelope of this package. */
export function openEnvelope(text: string): Envelope | undefined {
  try {
    const parsed = JSON.parse(text) as (Envelope & { [envelopeMark]?: unknown }) | null;
    const isOurs =
      parsed?.[envelopeMark] === 1 &&
      [parsed.messageId, parsed.topic, parsed.payload].every((part) => typeof part === "string");
    return isOurs ? parsed : undefined;
  } catch {
    return undefined;
  }
}
