import type { Budget } from "../base/async.js";
import { yieldToEventLoop } from "../base/async.js";
import { isGuid } from "../base/uuid.js";
import { InvalidArgumentError } from "../errors.js";
import { optionalDate, refuseUnknown } from "../queue/arguments.js";
import { expireWithin, type MaintenanceResult, purgeWithin, reapWithin } from "../queue/maintenance.js";
import type { OutboxKey, OutboxState } from "../queue/message.js";
import type { CallOptions, Page } from "../queue/work-store.js";
import type { ServiceParts } from "./service-parts.js";
import {
  addressOf,
  type SentMessage,
  type SentState,
  sentStates,
  topicOf,
  toSentMessage,
} from "./stored-message.js";

/** Which sent messages are listed. */
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

/** Numbers of a service's outbox. */
export interface OutboxStats {
  readonly counts: Readonly<Record<SentState, number>>;
  /** Messages that could be sent right now. */
  readonly due: number;
  readonly oldestDueAgeMs: number | null;
}

/** Numbers of a service's inbox. */
export interface InboxStats {
  /** Messages that are remembered as handled. */
  readonly size: number;
  /** What this process has handled or recognised as a duplicate since the service was created. */
  readonly received: number;
  readonly duplicates: number;
  /** The part of `received` that were duplicates, from 0 to 1; null while there are none. */
  readonly duplicateRate: number | null;
}

/** What the maintenance of a service did. */
export interface ServiceMaintenance {
  /** Expired leases and messages of the outbox. */
  readonly expired: MaintenanceResult;
  /** Failed messages that are Expired now. `onDead` was called for them. */
  readonly failed: MaintenanceResult;
  /** Sent messages that were deleted after their retention; `dead` counts Failed and Expired ones that were. */
  readonly sent: MaintenanceResult;
  /** Records of handled messages that were deleted after their retention. */
  readonly inbox: MaintenanceResult;
}

export interface ServiceManagement {
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
   * Sends Sent messages again, with all their retries and the service's `ttlMs` from now on, and returns how many: for a
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
export function serviceManagement(parts: ServiceParts): ServiceManagement {
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
      return { size: (await inbox.stats(call)).counts.Done, ...reports.received() };
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

/** Which Sent messages are sent again. */
export interface ResendFilter {
  readonly destination: string;
  /** Those that were acknowledged at this time or later: the time of the back-up that the destination was restored from. */
  readonly since: Date;
}

/** What became of messages that were to be sent again. */
export interface ResendResult {
  /** Messages that were Sent and are Pending again. */
  readonly resent: number;
}

/** Sends messages again that were sent before: by a filter, or by their ids. */
export type Resend = (
  which: ResendFilter | readonly string[],
  options?: CallOptions,
) => Promise<ResendResult>;

/** One statement's messages: SQL Server would lock the whole table for more than some thousands. */
const resendBatchSize = 500;

/** Makes Sent messages Pending again, batch by batch. */
function resender(parts: ServiceParts): Resend {
  const { outbox, settings, reports, wake } = parts;

  async function* batches(which: Which, call: CallOptions): AsyncGenerator<readonly OutboxKey[]> {
    if (isList(which)) {
      for (let at = 0; at < which.length; at += resendBatchSize)
        yield which.slice(at, at + resendBatchSize).map((id) => ({ id }));
      return;
    }
    const { destination, since } = which;
    let after: number | null = 0;
    while (after !== null) {
      const page = await outbox.listDone({ ...call, limit: resendBatchSize, after });
      yield page.messages.filter(
        ({ topic, processedAt }) => processedAt >= since && addressOf(topic).destination === destination,
      );
      after = page.cursor;
    }
  }

  return async (which, call = {}) => {
    refuseUnknown(call, ["signal"], "resend");
    checkWhich(which, parts);
    let resent = 0;
    for await (const batch of batches(which, call)) {
      const { changed } = await outbox.resend(batch, { ...call, ttlMs: settings.ttlMs });
      resent += changed.length;
      if (changed.length > 0) wake();
      await yieldToEventLoop(); // SQLite would keep the thread for all batches
    }
    reports.resent(resent, isList(which) ? undefined : which.destination);
    return { resent };
  };
}

type Which = Parameters<Resend>[0];

const isList = (which: Which): which is readonly string[] => Array.isArray(which);

function checkWhich(which: Which, { destinations, serviceId }: ServiceParts): void {
  const isRight = isList(which) ? which.every(isGuid) : typeof which === "object" && which !== null;
  if (!isRight)
    throw new InvalidArgumentError(
      "resend: give the message ids that send returned, or { destination, since }.",
    );
  if (isList(which)) return;
  refuseUnknown(which, ["destination", "since"], "resend");
  if (!destinations.has(which.destination))
    throw new InvalidArgumentError(
      `resend: "${String(which.destination)}" is not a destination of the service "${serviceId}".`,
    );
  if (optionalDate(which.since, "since") === null)
    throw new InvalidArgumentError("resend: since must be the time of the destination's back-up, a Date.");
}
