import type { OutboxKey } from "../queue/message.js";
import type { DeadLetterListener } from "../queue/work-store.js";
import { saysExpired } from "../sql/reasons.js";
import type { DeadMessage } from "./service-options.js";
import type { ServiceParts } from "./service-parts.js";
import { toSentMessage } from "./stored-message.js";

/** Reports each message that fails or expires, and tells the service's `onDead`. */
export const deadMessages =
  (parts: () => ServiceParts): DeadLetterListener<OutboxKey> =>
  async ({ message: key, reason }) => {
    const { outbox, options, settings, reports, now } = parts();
    const found = await outbox.get(key);
    if (found === null) return;
    const sent = toSentMessage(found, settings.retry.maxRetries, now());
    // By what has happened, not by the time: a message that fails past its expiry is told as Failed, and then as Expired.
    const state = saysExpired(reason) ? "Expired" : "Failed";
    const dead: DeadMessage = { ...sent, state, payload: JSON.parse(found.payload) as unknown };
    const { messageId, destination, endpoint, retryCount, maxRetries } = dead;
    const error = sent.lastError ?? reason;
    if (state === "Expired") reports.expired({ messageId, destination, endpoint });
    else reports.failed({ messageId, destination, endpoint }, retryCount, maxRetries, error);
    await options.onDead?.(dead, { state, error });
  };
