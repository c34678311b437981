import { timeBudget } from "../base/budget.js";
import { defined } from "../base/defined.js";
import { repeating } from "../base/repeating.js";
import { safeReason } from "../base/safe-reason.js";
import type { Dispatcher } from "../dispatch/dispatcher.js";
import { createWorker, type WakeUpSource, type Worker } from "../dispatch/worker.js";
import { InvalidOperationError } from "../errors.js";
import type { OutboxMessage } from "../queue/message.js";
import type { Operations } from "./operations.js";
import { outboxQueue } from "./outbox-queue.js";
import type { ServiceParts } from "./service-parts.js";

export interface ServiceWorker {
  start(): void;
  /** Resolves when every message that was being sent is settled. */
  stop(): Promise<void>;
  wake(): void;
}

const shortestReapMs = 60_000;

/** For a server: sends messages as they come, and cleans up at intervals. */
export function serviceWorker(
  parts: ServiceParts,
  dispatcher: Dispatcher<OutboxMessage>,
  { maintain }: Pick<Operations, "maintain">,
): ServiceWorker {
  const { outbox, settings, options, reports, destinations } = parts;
  const { pollMs, idlePollMs, cleanupMs } = settings;
  let running: Pick<Worker, "wake" | "stop"> | undefined;

  const cleanUp = async (signal: AbortSignal): Promise<void> => {
    await maintain(timeBudget(cleanupMs, signal)).catch((error: unknown) => {
      if (!signal.aborted) reports.logger.error("clean-up failed", { error: safeReason(error) });
    });
  };

  const sending = (): Worker =>
    createWorker({
      dispatcher,
      store: outbox,
      pollMs,
      idlePollMs,
      reapMs: Math.max(shortestReapMs, idlePollMs), // so that it does not keep a database awake, either
      logger: reports.logger,
      ...defined({ wakeUp: options.wakeUp ?? wakeUpByCommit(parts) }),
    });

  return {
    start() {
      if (running !== undefined) throw new InvalidOperationError("The service has been started already.");
      // Without destinations nothing is sent, responses included. The clean-up also ends what an earlier version has left.
      const worker = destinations.size === 0 ? undefined : sending();
      const cleaning = repeating(cleanupMs, cleanUp);
      running = {
        wake: () => worker?.wake(),
        async stop() {
          await Promise.all([worker?.stop(), cleaning.stop()]);
        },
      };
    },
    async stop() {
      const stopped = running;
      running = undefined;
      await stopped?.stop();
    },
    wake: () => running?.wake(),
  };
}

function wakeUpByCommit(parts: ServiceParts): WakeUpSource | undefined {
  const { options, outboxDb, reports } = parts;
  return options.notify ? outboxDb.notifications?.wakeUp(outboxQueue(parts), reports.logger) : undefined;
}
