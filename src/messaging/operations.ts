import type { Budget } from "../base/budget.js";
import { isGuid } from "../base/guid.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown } from "../queue/arguments.js";
import { expireWithin, type MaintenanceResult, purgeWithin, reapWithin } from "../queue/maintenance.js";
import type { OutboxState } from "../queue/message.js";
import type { CallOptions, Page } from "../queue/work-store.js";
import { type Resend, resender } from "./resend.js";
import type { ServiceParts } from "./service-parts.js";
import { type SentMessage, type SentState, sentStates, topicOf, toSentMessage } from "./stored-message.js";

export interface SentFilter extends CallOptions {
  readonly state?: SentState | undefined;
  /** Give `endpoint` as well. */
  readonly destination?: string | undefined;
  readonly endpoint?: string | undefined;
  /** 100 by default, 1,000 at most. */
  readonly limit?: number | undefined;
  /** The `cursor` of the previous page. */
  readonly after?: number | undefined;
}

export interface OutboxStats {
  readonly counts: Readonly<Record<SentState, number>>;
  /** Messages that could be sent right now. */
  readonly due: number;
  readonly oldestDueAgeMs: number | null;
}

export interface InboxStats {
  /** Messages that are remembered as handled. */
  readonly size: number;
}

export interface ServiceMaintenance {
  /** Expired leases and messages of the outbox. */
  readonly expired: MaintenanceResult;
  /** Failed messages that are Expired now. `onDead` was told. */
  readonly failed: MaintenanceResult;
  /** Sent messages that were deleted after their retention; `dead` counts Failed and Expired ones that were. */
  readonly sent: MaintenanceResult;
  /** Records of handled messages that were deleted after their retention. */
  readonly inbox: MaintenanceResult;
}

export interface Operations {
  outboxStats(options?: CallOptions): Promise<OutboxStats>;
  inboxStats(options?: CallOptions): Promise<InboxStats>;
  /** A page may have fewer messages than `limit`, also when more follow: read on until `cursor` is null. */
  list(filter?: SentFilter): Promise<Page<SentMessage>>;
  get(messageId: string, options?: CallOptions): Promise<SentMessage | null>;
  /**
   * Sends a Failed or Expired message again, with all its retries and the service's `ttlMs` from now on. Returns whether
   * there was one. A receiver that handled the message and has forgotten it since, after its inbox retention, handles it
   * again.
   */
  retry(messageId: string, options?: CallOptions): Promise<boolean>;
  /**
   * Sends Sent messages again, with all their retries and the service's `ttlMs` from now on, and tells how many: for a
   * destination whose database was restored from an older back-up. Messages that the destination still knows are
   * duplicates there. In batches; when it is aborted, what it has done stays, and it may be called again.
   *
   * @example
   * await orders.resend({ destination: "inventory", since: timeOfItsBackUp });
   */
  readonly resend: Resend;
  maintain(budget: Budget): Promise<ServiceMaintenance>;
}

/** The outbox's states that a message of a state may be in. */
const outboxStateOf: Readonly<Record<SentState, OutboxState>> = {
  Pending: "Ready",
  Sending: "InProgress",
  Sent: "Done",
  Failed: "Failed",
  Expired: "Failed",
};

/** What an operator or a timer does with a service. */
export function serviceOperations(parts: ServiceParts): Operations {
  const { outbox, inbox, settings, reports, dead, now, wake } = parts;
  const { maxRetries } = settings.retry;

  return {
    async outboxStats(call = {}) {
      const { counts, due, oldestDueAgeMs, expired } = await outbox.stats(call);
      return {
        counts: {
          Pending: counts.Ready,
          Sending: counts.InProgress,
          Sent: counts.Done,
          Failed: counts.Failed - expired,
          Expired: expired,
        },
        due,
        oldestDueAgeMs,
      };
    },

    async inboxStats(call = {}) {
      return { size: (await inbox.stats(call)).counts.Done };
    },

    async list(filter = {}) {
      refuseUnknown(filter, ["state", "destination", "endpoint", "limit", "after", "signal"], "list");
      const { state, destination, endpoint, ...page } = filter;
      if (state !== undefined && !sentStates.includes(state))
        throw new InvalidArgumentError(`list: state must be one of ${sentStates.join(", ")}.`);
      if ((destination === undefined) !== (endpoint === undefined))
        throw new InvalidArgumentError("list: give destination and endpoint together, or neither.");
      const { messages, cursor } = await outbox.list({
        ...page,
        state: state && outboxStateOf[state],
        topic: destination === undefined ? undefined : topicOf(destination, endpoint!),
      });
      const time = now();
      const all = messages.map((message) => toSentMessage(message, maxRetries, time));
      return { messages: all.filter((one) => state === undefined || one.state === state), cursor };
    },

    async get(messageId, call = {}) {
      const found = isGuid(messageId) ? await outbox.get({ id: messageId }, call) : null;
      return found && toSentMessage(found, maxRetries, now());
    },

    async retry(messageId, call = {}) {
      const { changed } = await outbox.replay([{ id: messageId }], { ...call, ttlMs: settings.ttlMs });
      if (changed.length > 0) wake();
      return changed.length > 0;
    },

    resend: resender(parts),

    async maintain(budget) {
      const expired = await reapWithin(outbox, budget);
      const failed = await expireWithin(outbox, budget);
      const { sentRetentionMs, failedRetentionMs } = settings;
      const deadRetentionMs = Number.isFinite(failedRetentionMs) ? failedRetentionMs : undefined;
      const sent = await purgeWithin(outbox, budget, { retentionMs: sentRetentionMs, deadRetentionMs });
      // An envelope that was signed just before its message expired is accepted for as long as its time is tolerated.
      const retentionMs = settings.inboxRetentionMs + settings.toleranceMs;
      const handled = await purgeWithin(inbox, budget, { retentionMs });
      const [outboxStats, inboxStats] = [await outbox.stats(), await inbox.stats()];
      reports.sizes(outboxStats.counts.Ready, inboxStats.counts.Done);
      await dead.ended(budget);
      return { expired, failed, sent, inbox: handled };
    },
  };
}
