import type { ServiceBusMessage, ServiceBusSender } from "@azure/service-bus";
import { InvalidArgumentError } from "../errors.js";
import { attributeNames } from "../middleware/trigger-message.js";
import { refuseUnknown } from "../queue/arguments.js";
import { permanentFailure } from "../queue/settlement.js";
import { sizeOf } from "./aws-attributes.js";
import { guarded, publisherOptionNames } from "./guarded.js";
import { microBatch, sent } from "./micro-batch.js";
import type { PublishedMessage, Publisher, PublisherOptions } from "./publisher.js";

export interface ServiceBusPublisherOptions extends PublisherOptions {
  /** `new ServiceBusClient(…).createSender("orders")`. */
  readonly sender: Pick<ServiceBusSender, "sendMessages">;
  /** Messages in one request: 100 by default. */
  readonly maxBatch?: number;
}

/**
 * Sends to a Service Bus queue or topic, what comes together in one batch. The partition key is the session, the message
 * id is what duplicate detection goes by. Service Bus takes a batch as a whole or not at all.
 *
 * @example
 * createDispatcher({ handlers: { "order.placed": serviceBusPublisher({ sender: client.createSender("orders") }) } })
 */
export function serviceBusPublisher(options: ServiceBusPublisherOptions): Publisher {
  refuseUnknown(options, ["sender", "maxBatch", ...publisherOptionNames], "serviceBusPublisher");
  const { sender, maxBatch = 100 } = options;
  if (typeof sender?.sendMessages !== "function")
    throw new InvalidArgumentError("serviceBusPublisher: sender must be a ServiceBusSender.");
  const send = microBatch<PublishedMessage>({
    maxItems: maxBatch,
    maxBytes: 200_000, // of 256 KB on the standard tier
    bytesOf: sizeOf,
    async send(messages) {
      const all = messages.map(toServiceBus);
      await sender.sendMessages(all.length === 1 ? all[0]! : all);
      return messages.map(() => sent);
    },
  });
  return guarded("Service Bus", options, async (message) => {
    try {
      await send(message);
    } catch (error) {
      if ((error as { code?: unknown }).code === "MessageSizeExceeded")
        throw permanentFailure("The message is larger than Service Bus takes.");
      throw error;
    }
  });
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
