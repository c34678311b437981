import { isGuid } from "../base/guid.js";
import { yieldToEventLoop } from "../base/wait.js";
import { InvalidArgumentError } from "../errors.js";
import { optionalDate, refuseUnknown } from "../queue/arguments.js";
import type { OutboxKey } from "../queue/message.js";
import type { CallOptions } from "../queue/work-store.js";
import type { ServiceParts } from "./service-parts.js";
import { addressOf } from "./stored-message.js";

/** Which Sent messages are sent again. */
export interface ResendFilter {
  readonly destination: string;
  /** Those that were acknowledged at this time or later: the time of the back-up that the destination was restored from. */
  readonly since: Date;
}

export interface ResendResult {
  /** Messages that were Sent and are Pending again. */
  readonly resent: number;
}

export type Resend = (
  which: ResendFilter | readonly string[],
  options?: CallOptions,
) => Promise<ResendResult>;

/** One statement's messages: SQL Server would lock the whole table for more than some thousands. */
const batchSize = 500;

/** Makes Sent messages Pending again, batch by batch. */
export function resender(parts: ServiceParts): Resend {
  const { outbox, settings, reports, wake } = parts;

  const resendBatch = async (messages: readonly OutboxKey[], call: CallOptions): Promise<number> => {
    const { changed } = await outbox.resend(messages, { ...call, ttlMs: settings.ttlMs });
    if (changed.length > 0) wake();
    await yieldToEventLoop(); // SQLite would keep the thread for all batches
    return changed.length;
  };

  const resendSince = async ({ destination, since }: ResendFilter, call: CallOptions): Promise<number> => {
    let resent = 0;
    let after: number | null = 0;
    while (after !== null) {
      const page = await outbox.listDone({ ...call, limit: batchSize, after });
      const wanted = page.messages.filter(
        ({ topic, processedAt }) => processedAt >= since && addressOf(topic).destination === destination,
      );
      resent += await resendBatch(wanted, call);
      after = page.cursor;
    }
    return resent;
  };

  const resendThese = async (ids: readonly string[], call: CallOptions): Promise<number> => {
    let resent = 0;
    for (let at = 0; at < ids.length; at += batchSize)
      resent += await resendBatch(
        ids.slice(at, at + batchSize).map((id) => ({ id })),
        call,
      );
    return resent;
  };

  return async (which, call = {}) => {
    refuseUnknown(call, ["signal"], "resend");
    const resent = isList(which)
      ? await resendThese(checkedIds(which), call)
      : await resendSince(checkedFilter(parts, which), call);
    reports.resent(resent, isList(which) ? undefined : which.destination);
    return { resent };
  };
}

const isList = (which: ResendFilter | readonly string[]): which is readonly string[] => Array.isArray(which);

function checkedIds(ids: readonly string[]): readonly string[] {
  if (ids.every(isGuid)) return ids;
  throw new InvalidArgumentError(
    "resend: give the message ids that send returned, or { destination, since }.",
  );
}

function checkedFilter({ destinations, serviceId }: ServiceParts, filter: ResendFilter): ResendFilter {
  if (typeof filter !== "object" || filter === null)
    throw new InvalidArgumentError("resend: give { destination, since }, or a list of message ids.");
  refuseUnknown(filter, ["destination", "since"], "resend");
  if (!destinations.has(filter.destination))
    throw new InvalidArgumentError(
      `resend: "${String(filter.destination)}" is not a destination of the service "${serviceId}".`,
    );
  if (optionalDate(filter.since, "since") === null)
    throw new InvalidArgumentError("resend: since must be the time of the destination's back-up, a Date.");
  return filter;
}
