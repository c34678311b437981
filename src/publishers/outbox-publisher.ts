import type { Logger } from "../base/logger.js";
import { createDispatcher } from "../dispatch/dispatcher.js";
import type { Handlers } from "../dispatch/handlers.js";
import { createWorker, type Worker } from "../dispatch/worker.js";
import type { Outbox } from "../outbox/outbox.js";
import { refuseUnknown } from "../queue/arguments.js";
import type { OutboxMessage } from "../queue/message.js";

export interface OutboxPublisherOptions {
  readonly outbox: Outbox;
  /** A publisher for each topic, or any other handler. */
  readonly publishers: Handlers<OutboxMessage>;
  /** 500 ms by default. */
  readonly pollMs?: number;
  /** Rows in one poll, and in flight at once: 100 by default. */
  readonly batchSize?: number;
  /** Aborting it stops the publisher cleanly, as `stop` does. */
  readonly signal?: AbortSignal;
  readonly logger?: Logger;
}

/**
 * For those who have a server: polls the outbox and hands each row to its topic's publisher. What a publisher takes is
 * marked, what it does not take stays and is tried again. Any number may run beside each other.
 *
 * @example
 * const publisher = startOutboxPublisher({ outbox, publishers: { "order.placed": sqsPublisher({ queueUrl }) } });
 * process.once("SIGTERM", () => publisher.stop());
 */
export function startOutboxPublisher(options: OutboxPublisherOptions): Worker {
  refuseUnknown(
    options,
    ["outbox", "publishers", "pollMs", "batchSize", "signal", "logger"],
    "startOutboxPublisher",
  );
  const { outbox, publishers, pollMs = 500, batchSize = 100, signal } = options;
  const logger = options.logger === undefined ? {} : { logger: options.logger };
  const dispatcher = createDispatcher<OutboxMessage>({
    handlers: publishers,
    batchSize,
    concurrency: batchSize, // so that publishers can fill their batches
    ...logger,
  });
  const worker = createWorker({ dispatcher, store: outbox, pollMs, idlePollMs: pollMs, ...logger });
  const stop = () => void worker.stop();
  if (signal?.aborted) stop();
  else signal?.addEventListener("abort", stop, { once: true });
  return worker;
}
