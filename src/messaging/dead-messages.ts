import type { Budget } from "../base/budget.js";
import { withinTime } from "../base/within-time.js";
import type { OutboxKey } from "../queue/message.js";
import type { DeadLetterListener } from "../queue/work-store.js";
import { saysExpired } from "../sql/reasons.js";
import type { DeadMessage } from "./service-options.js";
import type { ServiceParts } from "./service-parts.js";
import { toSentMessage } from "./stored-message.js";

export interface DeadMessages {
  /** Reports each message that fails or expires, and tells the service's `onDead`. */
  readonly listener: DeadLetterListener<OutboxKey>;
  /**
   * Resolves when every call of `onDead` has ended: after `handlerTimeoutMs` at the latest, and within the budget of a
   * function, whose platform may freeze the process after that. Calls that are given up are logged.
   */
  ended(budget?: Budget): Promise<void>;
}

/** The time that the function needs to return its result. */
const returnMs = 50;

/** The store does not wait for its listener, so the calls that run are kept here. */
export function deadMessages(parts: () => ServiceParts): DeadMessages {
  const running = new Set<Promise<void>>();
  return {
    listener(dead) {
      const call = tell(parts(), dead);
      running.add(call);
      return call.finally(() => running.delete(call));
    },
    async ended(budget) {
      if (running.size === 0) return;
      const { settings, reports } = parts();
      const leftMs = budget === undefined ? settings.handlerTimeoutMs : budget.remainingMs() - returnMs;
      const ms = Math.max(0, Math.min(leftMs, settings.handlerTimeoutMs));
      const all = Promise.allSettled(running);
      await withinTime(ms, all, () => new Error("late")).catch(() => {
        reports.logger.error("onDead is still running, and is not waited for", {
          calls: running.size,
        });
      });
    },
  };
}

async function tell(
  { outbox, options, settings, reports, now }: ServiceParts,
  { message: key, reason }: Parameters<DeadLetterListener<OutboxKey>>[0],
): Promise<void> {
  const found = await outbox.get(key);
  if (found === null) return;
  const sent = toSentMessage(found, settings.retry.maxRetries, now());
  // By what has happened, not by the time: a message that fails past its expiry is told as Failed, and then as Expired.
  const state = saysExpired(reason) ? "Expired" : "Failed";
  const dead: DeadMessage = { ...sent, state, payload: JSON.parse(found.payload) as unknown };
  const { messageId, destination, endpoint, retryCount, maxRetries } = dead;
  const error = sent.lastError ?? reason;
  if (state === "Expired") reports.expired({ messageId, destination, endpoint });
  else reports.failed({ messageId, destination, endpoint }, retryCount, maxRetries);
  await options.onDead?.(dead, { state, error });
}
