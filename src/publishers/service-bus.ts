import type { ServiceBusMessage, ServiceBusSender } from "@azure/service-bus";
import { permanentFailure } from "../dispatch/settlement.js";
import { InvalidArgumentError } from "../errors.js";
import { attributeNames } from "../middleware/trigger-message.js";
import { refuseUnknown } from "../queue/arguments.js";
import { eachAlone } from "./each-alone.js";
import { publisherOptionNames } from "./guarded.js";
import { hashedKey } from "./hashed-key.js";
import { messageSize } from "./message-size.js";
import { microBatch, notSent, type Sent, sent } from "./micro-batch.js";
import { publishTo } from "./publish-to.js";
import type { PublishedMessage, Publisher, PublisherOptions } from "./publisher.js";

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
 * message id is the id of duplicate detection. A key of more than 128 characters, the limit of a session, is hashed. Service Bus takes a batch as a whole or not at all, so each session has
 * batches of its own.
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
    bytesOf: messageSize,
    async send(messages, signal) {
      const outcomes = new Map<PublishedMessage, Sent>();
      const sendAll = [...bySession(messages).values()].map(async (session) => {
        const ends = await eachAlone(session, isContentFault, (some) => sendTogether(some, signal)).catch(
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
    if (messageSize(message) <= largeBytes) return;
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
    subject: topic,
    body: Buffer.from(payload, "utf8"), // a string would arrive wrapped in an AMQP type
    contentType: headers?.["content-type"] ?? "application/json",
    applicationProperties: {
      [attributeNames.topic]: topic,
      ...(headers === null ? {} : { [attributeNames.headers]: JSON.stringify(headers) }),
    },
    ...(correlationId === null ? {} : { correlationId }),
    ...(partitionKey ? { sessionId: sessionOf(partitionKey) } : {}),
  };
}

const sessionOf = (key: string): string => (key.length > 128 ? hashedKey(key) : key);
