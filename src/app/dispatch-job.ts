import type { Budget } from "../base/budget.js";
import { createDispatcher } from "../dispatch/dispatcher.js";
import type { Handlers } from "../dispatch/handlers.js";
import type { QueueMessage } from "../queue/message.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { TenantBatch } from "../tenants/fan-out/tenant-batch.js";
import type { AppParts } from "./app-definition.js";
import { type DispatchReport, dispatchAll } from "./dispatch-all.js";
import type { OpenApp } from "./open-app.js";
import { successorOf } from "./successor.js";

/**
 * `wokenUp`: look once more after a moment, because a burst is announced once. `shares`: these tenants, and no others.
 */
export type DispatchJob = (
  budget: Budget,
  options?: { readonly wokenUp?: boolean; readonly shares?: readonly TenantBatch[] },
) => Promise<DispatchReport>;

/** Handles what came in and what goes out; when the time ends before the work, a successor is woken. */
export function dispatchJob({ definition, logger, wakeUp, tenants, ...parts }: OpenApp): DispatchJob {
  if (tenants !== undefined) return tenants.dispatch;
  const dispatcherOf = <Message extends QueueMessage>(
    handlers:
      | Handlers<Message, SqlExecutor>
      | ((parts: AppParts) => Handlers<Message, SqlExecutor>)
      | undefined,
  ) =>
    handlers === undefined
      ? undefined
      : createDispatcher<Message, SqlExecutor>({
          ...definition.dispatch,
          ...(definition.metrics === undefined ? {} : { metrics: definition.metrics }),
          handlers: typeof handlers === "function" ? handlers(parts) : handlers,
          logger,
        });
  const { inbox, outbox } = parts;
  const incoming = dispatcherOf(definition.handlers);
  const outgoing = dispatcherOf(definition.publishers);
  const jobs = {
    inbox: incoming && ((left: Budget) => incoming.run(inbox, left)),
    outbox: outgoing && ((left: Budget) => outgoing.run(outbox, left)),
  };
  return async (budget, { wokenUp = false } = {}) => {
    if (wakeUp === undefined) return dispatchAll(jobs, budget, wokenUp);
    const successor = successorOf(wakeUp, budget, logger);
    try {
      const report = await dispatchAll(jobs, successor.budgetBefore, wokenUp);
      if (report.more && hasProgressed(report)) await successor.wake();
      return report;
    } finally {
      successor.close();
    }
  };
}

/**
 * A run that finished nothing (its time is too short for what waits, or others hold it) would be followed by runs that
 * finish nothing, at once and for ever. That is left to the timer. What failed counts: attempts come to an end.
 */
const hasProgressed = ({ inbox, outbox }: DispatchReport): boolean =>
  [inbox, outbox].some((result) => result !== null && result.acked + result.abandoned + result.failed > 0);
