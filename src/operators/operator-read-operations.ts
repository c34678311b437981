import { isGuid } from "../base/guid.js";
import { refuseUnknown, requireBatchSize, requireName } from "../queue/arguments.js";
import type { EndedAs, QueueMessage } from "../queue/message.js";
import type { BlockedPartition } from "../queue/operator-reads.js";
import type { Operators } from "../queue/operators.js";
import { defaults } from "../sql/defaults.js";
import { type OperatorReadStatements, status } from "../sql/dialect.js";
import type { SqlRow } from "../sql/driver.js";
import { isTrue } from "../sql/is-true.js";
import type { QueueParts } from "../sql/queue-parts.js";

/** What operators read beside `activity`: which partition keys are held up, and what belongs to one event. */
export function operatorReadOperations<
  Key extends object,
  Message extends QueueMessage & Key,
  State extends string,
>(
  { db, shape, runner }: QueueParts<Key, Message, State>,
  statements: OperatorReadStatements,
): Pick<Operators<Key>, "blockedPartitions" | "byCorrelation"> {
  const time = (value: unknown): Date | null =>
    value === null || value === undefined ? null : db.dialect.fromTime(value);
  return {
    async blockedPartitions(options = {}) {
      refuseUnknown(options, ["limit", "signal"], "blockedPartitions");
      const { limit = defaults.listLimit, signal } = options;
      requireBatchSize(limit, "limit");
      const rows = await runner.execute(statements.blockedPartitions, { limit }, { signal });
      return rows.map((row) => {
        const reason = reasonOf(row);
        const diedAt = reason === "dead" ? time(row.died_at) : null;
        return {
          partitionKey: row.partition_key as string,
          head: shape.keyOf(row),
          topic: row.topic as string,
          reason,
          attempt: Number(row.attempt),
          error: row.last_error as string | null,
          nextAttemptAt: reason === "dead" ? null : time(row.next_attempt_at),
          waiting: Number(row.waiting),
          since: diedAt ?? time(row.waiting_since)!,
        };
      });
    },

    async byCorrelation(id, options = {}) {
      refuseUnknown(options, ["limit", "signal"], "byCorrelation");
      requireName(id, "id");
      const { limit = defaults.listLimit, signal } = options;
      requireBatchSize(limit, "limit");
      const params = { correlation_id: id, id: isGuid(id) ? id.toLowerCase() : null, limit };
      const rows = await runner.execute(statements.byCorrelation, params, { signal });
      return rows.map((row) => {
        const doneAt = time(row.processed_at);
        const endedAs = (row.ended_as as EndedAs | null | undefined) ?? null;
        return {
          key: shape.keyOf(row),
          topic: row.topic as string,
          state: shape.stateOf({ status: Number(row.status), leased: isTrue(row.leased) }),
          correlationId: row.correlation_id as string | null,
          messageId: shape.messageIdOf(row),
          partitionKey: row.partition_key as string | null,
          attempt: Number(row.attempt),
          lastError: row.last_error as string | null,
          enqueuedAt: time(row.enqueued_at)!,
          firstAttemptAt: time(row.first_failed_at) ?? (endedAs === null ? doneAt : null),
          doneAt,
          diedAt: Number(row.status) === status.dead ? time(row.died_at) : null,
          endedAs,
        };
      });
    },
  };
}

function reasonOf(row: SqlRow): BlockedPartition<unknown>["reason"] {
  if (Number(row.status) === status.dead) return "dead";
  if (isTrue(row.leased)) return "leased";
  if (Number(row.status) === status.parked) return "parked";
  return Number(row.attempt) > 0 ? "retrying" : "scheduled";
}
