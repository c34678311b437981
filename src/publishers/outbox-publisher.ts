import { omitUndefined } from "../base/defined.js";
import type { LoggerOption } from "../base/logger.js";
import type { Telemetry } from "../base/telemetry.js";
import type { Handlers } from "../dispatch/handlers.js";
import { createWorker, type Worker } from "../dispatch/worker.js";
import type { Outbox } from "../outbox/outbox.js";
import { refuseUnknown } from "../queue/arguments.js";
import type { OutboxMessage } from "../queue/message.js";

/** Options of a worker that publishes an outbox. */
export interface OutboxPublisherOptions extends Telemetry {
  readonly outbox: Outbox;
  /** A publisher for each topic, or any other handler. */
  readonly publishers: Handlers<OutboxMessage>;
  /** Time between two polls: 500 ms by default. */
  readonly pollMs?: number;
  /** Rows of one poll, and handlers at once: 100 by default. */
  readonly batchSize?: number;
  /** Aborting it stops the publisher cleanly, as `stop` does. */
  readonly signal?: AbortSignal;
  readonly logger?: LoggerOption;
}

/**
 * For a server: polls the outbox and gives each message to its topic's publisher. A message that is published is marked
 * as done. A message whose publisher throws stays in the outbox and is retried. Any number of publishers may run side by
 * side.
 *
 * @example
 * const publisher = startOutboxPublisher({ outbox, publishers: { "order.placed": sqsPublisher({ queueUrl }) } });
 * process.once("SIGTERM", () => publisher.stop());
 */
export function startOutboxPublisher(options: OutboxPublisherOptions): Worker {
  refuseUnknown(
    options,
    ["outbox", "publishers", "pollMs", "batchSize", "signal", "logger", "metrics", "tracing"],
    "startOutboxPublisher",
  );
  const { outbox, publishers, pollMs = 500, batchSize = 100, signal, logger, metrics, tracing } = options;
  const worker = createWorker({
    store: outbox,
    handlers: publishers,
    batchSize,
    concurrency: batchSize, // so that publishers can fill their batches
    pollMs,
    idlePollMs: pollMs,
    ...omitUndefined({ logger, metrics, tracing }),
  });
  const stop = () => void worker.stop();
  if (signal?.aborted) stop();
  else signal?.addEventListener("abort", stop, { once: true });
  return worker;
}
