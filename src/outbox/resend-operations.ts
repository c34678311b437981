import { InvalidArgumentError } from "../errors.js";
import { optionalCount, refuseUnknown, requireBatchSize, requireDuration } from "../queue/arguments.js";
import { checkCall } from "../queue/check-call.js";
import type { OutboxKey } from "../queue/message.js";
import type { CallOptions, ReplayOptions, Settlement } from "../queue/work-store.js";
import { defaults } from "../sql/defaults.js";
import type { Database, OutboxStatements } from "../sql/dialect.js";
import { outboxShape } from "../sql/queue-shape.js";
import type { StoreInternals } from "../sql/queue-store.js";
import { rowNumber } from "../sql/row-number.js";
import { toStoredError } from "../sql/stored-text.js";

/** A message that was sent, without what it contains. It is a key: settling by it saves a query. */
export interface DoneMessage extends OutboxKey {
  readonly seq: number;
  readonly topic: string;
  readonly processedAt: Date;
}

export interface DonePage {
  readonly messages: readonly DoneMessage[];
  /** Pass it as `after` to get the next page; null on the last page. */
  readonly cursor: number | null;
}

export interface DoneFilter extends CallOptions {
  /** 100 by default, 1,000 at most. */
  readonly limit?: number;
  readonly after?: number | undefined;
}

export interface MakeDueOptions extends CallOptions {
  /** Messages in one batch; 200 by default. */
  readonly batchSize?: number;
}

export interface ResendOperations {
  /** Done messages in the order in which they were enqueued. Their payloads are not read. */
  listDone(filter?: DoneFilter): Promise<DonePage>;
  /**
   * Makes Done messages claimable again, with attempt 0, under their ids. For receivers that have lost what they got. Those
   * that still know a message deduplicate it.
   */
  resend(messages: readonly OutboxKey[], options?: Omit<ReplayOptions, "by">): Promise<Settlement<OutboxKey>>;
  /** Makes one batch of messages due at once that wait for their next attempt with exactly this `lastError`. */
  makeDue(
    error: string,
    options?: MakeDueOptions,
  ): Promise<{ readonly changed: number; readonly more: boolean }>;
}

/** The operations of an outbox that send messages again, or earlier. */
export function resendOperations(
  { dialect }: Database,
  statements: OutboxStatements,
  { executeIn, settle }: Pick<StoreInternals<OutboxKey>, "executeIn" | "settle">,
): ResendOperations {
  return {
    async listDone(filter = {}) {
      refuseUnknown(filter, ["limit", "after", "signal"], "listDone");
      const { limit = defaults.listLimit, after, signal } = filter;
      requireBatchSize(limit, "limit");
      optionalCount(after, "after", 0);
      const params = { after_seq: after ?? 0, limit };
      const rows = await executeIn(undefined, statements.listDone, params, { signal });
      const messages = rows.map((row) => ({
        ...outboxShape.keyOf(row),
        seq: rowNumber(row.seq),
        topic: row.topic as string,
        processedAt: dialect.fromTime(row.processed_at),
      }));
      return { messages, cursor: messages.length < limit ? null : messages.at(-1)!.seq };
    },

    async resend(messages, call = {}) {
      checkCall(call, ["ttlMs", "signal"], "resend");
      if (call.ttlMs !== undefined) requireDuration(call.ttlMs, "ttlMs");
      const params = { ttl_ms: call.ttlMs ?? null };
      return settle(messages, call, { verb: "resend", statement: statements.resend, params });
    },

    async makeDue(error, call = {}) {
      checkCall(call, ["batchSize", "signal"], "makeDue");
      const { batchSize = defaults.reapBatchSize, signal } = call;
      if (typeof error !== "string" || error === "")
        throw new InvalidArgumentError(
          "makeDue: error must be the lastError of the messages that are meant.",
        );
      requireBatchSize(batchSize);
      const params = { error: toStoredError(error), limit: batchSize };
      const { length } = await executeIn(undefined, statements.makeDue, params, { signal });
      return { changed: length, more: length >= batchSize };
    },
  };
}
