import type { ServiceBusMessage, ServiceBusSender } from "@azure/service-bus";
import { permanentFailure } from "../dispatch/settlement.js";
import { InvalidArgumentError } from "../errors.js";
import { attributeNames } from "../middleware/trigger-message.js";
import { refuseUnknown } from "../queue/arguments.js";
import { sizeOf } from "./aws-attributes.js";
import { guarded, publisherOptionNames } from "./guarded.js";
import { microBatch, notSent, type Sent, sent } from "./micro-batch.js";
import type { PublishedMessage, Publisher, PublisherOptions } from "./publisher.js";

export interface ServiceBusPublisherOptions extends PublisherOptions {
  /** `new ServiceBusClient(…).createSender("orders")`. */
  readonly sender: Pick<ServiceBusSender, "sendMessages" | "createMessageBatch">;
  /** Messages in one request: 100 by default. */
  readonly maxBatch?: number;
}

/**
 * Sends to a Service Bus queue or topic, what comes together in one batch. The partition key is the session, the message
 * id is what duplicate detection goes by. Service Bus takes a batch as a whole or not at all; each session has its own.
 *
 * @example
 * createDispatcher({ handlers: { "order.placed": serviceBusPublisher({ sender: client.createSender("orders") }) } })
 */
export function serviceBusPublisher(options: ServiceBusPublisherOptions): Publisher {
  refuseUnknown(options, ["sender", "maxBatch", ...publisherOptionNames], "serviceBusPublisher");
  const { sender, maxBatch = 100 } = options;
  if (typeof sender?.sendMessages !== "function" || typeof sender.createMessageBatch !== "function")
    throw new InvalidArgumentError("serviceBusPublisher: sender must be a ServiceBusSender.");
  const send = microBatch<PublishedMessage>({
    maxItems: maxBatch,
    maxBytes: largeBytes,
    bytesOf: sizeOf,
    async send(messages) {
      const outcomes = new Map<PublishedMessage, Sent>();
      const groups = [...bySession(messages).values()];
      await Promise.all(
        groups.map(async (group) => {
          const outcome = await sendGroup(group);
          for (const message of group) outcomes.set(message, outcome);
        }),
      );
      return messages.map((message) => outcomes.get(message)!);
    },
  });
  const sendGroup = (group: readonly PublishedMessage[]): Promise<Sent> => {
    const all = group.map(toServiceBus);
    return sender.sendMessages(all.length === 1 ? all[0]! : all).then(() => sent, notSent);
  };
  /** Asked before it is sent: Service Bus would close the connection, and fail what is on its way beside it. */
  const refuseTooLarge = async (message: PublishedMessage): Promise<void> => {
    if (sizeOf(message) <= largeBytes) return;
    const batch = await sender.createMessageBatch();
    if (!batch.tryAddMessage(toServiceBus(message)))
      throw permanentFailure("The message is larger than Service Bus takes.");
  };
  return guarded("Service Bus", options, async (message) => {
    await refuseTooLarge(message);
    await send(message);
  });
}

/** Of a batch on the standard tier, which may have 256 KB; more than this is sent alone. */
const largeBytes = 200_000;

/** A partitioned queue takes no batch whose messages belong to different sessions. */
function bySession(messages: readonly PublishedMessage[]): Map<string, PublishedMessage[]> {
  const groups = new Map<string, PublishedMessage[]>();
  for (const message of messages) {
    const session = message.partitionKey ?? "";
    groups.set(session, [...(groups.get(session) ?? []), message]);
  }
  return groups;
}

function toServiceBus(message: PublishedMessage): ServiceBusMessage {
  const { messageId, topic, payload, headers, correlationId, partitionKey } = message;
  return {
    messageId,
    subject: topic,
    body: Buffer.from(payload, "utf8"), // as data: a string would arrive with an AMQP type around it
    contentType: headers?.["content-type"] ?? "application/json",
    applicationProperties: {
      [attributeNames.topic]: topic,
      ...(headers === null ? {} : { [attributeNames.headers]: JSON.stringify(headers) }),
    },
    ...(correlationId === null ? {} : { correlationId }),
    ...(partitionKey ? { sessionId: partitionKey } : {}),
  };
}
