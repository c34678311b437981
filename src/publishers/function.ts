import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown, requireName } from "../queue/arguments.js";
import { publisherOptionNames } from "./guarded.js";
import { publishTo } from "./publish-to.js";
import type { Publisher, PublisherOptions } from "./publisher.js";

export interface FunctionPublisherOptions extends PublisherOptions {
  /** The destination's name in errors, such as "The invoice service". */
  readonly destination: string;
  readonly publish: Publisher;
}

/**
 * Publishes with a function of your own, with a circuit breaker around it.
 *
 * @example
 * functionPublisher({ destination: "RabbitMQ", publish: async (message) => channel.sendToQueue("orders", Buffer.from(message.payload)) })
 */
export function functionPublisher(options: FunctionPublisherOptions): Publisher {
  refuseUnknown(options, ["destination", "publish", ...publisherOptionNames], "functionPublisher");
  requireName(options.destination, "functionPublisher: destination");
  if (typeof options.publish !== "function")
    throw new InvalidArgumentError(
      "functionPublisher: publish must be a function (message, { signal }) => promise.",
    );
  return publishTo(options.destination, options, async (message, context) => {
    await options.publish(message, context);
  });
}
