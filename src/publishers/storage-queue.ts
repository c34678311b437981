import type { QueueClient } from "@azure/storage-queue";
import { permanentFailure } from "../dispatch/settlement.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown } from "../queue/arguments.js";
import { toEnvelope } from "./envelope.js";
import { publisherOptionNames } from "./guarded.js";
import { publishTo } from "./publish-to.js";
import type { Publisher, PublisherOptions } from "./publisher.js";

export interface StorageQueuePublisherOptions extends PublisherOptions {
  /** A `QueueClient` of `@azure/storage-queue`. */
  readonly queue: Pick<QueueClient, "sendMessage"> & Partial<Pick<QueueClient, "name">>;
  /** Sends the payload alone. By default it is in an envelope with id, topic and headers, which `storageQueueHandler` reads. */
  readonly bare?: boolean;
}

/** The limit of a Storage queue's message, in base64. */
const maxBytes = 65_536;

/**
 * Sends to a Storage queue, in base64, as Azure Functions expects.
 *
 * @example
 * createDispatcher({ store: outbox, handlers: { "order.placed": storageQueuePublisher({ queue: service.getQueueClient("orders") }) } })
 */
export function storageQueuePublisher(options: StorageQueuePublisherOptions): Publisher {
  refuseUnknown(options, ["queue", "bare", ...publisherOptionNames], "storageQueuePublisher");
  const { queue, bare = false } = options;
  if (typeof queue?.sendMessage !== "function")
    throw new InvalidArgumentError("storageQueuePublisher: queue must be a QueueClient.");
  return publishTo(`The Storage queue ${queue.name ?? ""}`.trim(), options, async (message, { signal }) => {
    const text = Buffer.from(bare ? message.payload : toEnvelope(message), "utf8").toString("base64");
    if (text.length > maxBytes)
      throw permanentFailure("The message is larger than 48 KB, the limit of a Storage queue.");
    await queue.sendMessage(text, { abortSignal: signal });
  });
}
