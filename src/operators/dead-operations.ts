import { requireBatchSize } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import type { Operators } from "../queue/operators.js";
import { defaults } from "../sql/defaults.js";
import type { DeadStatements } from "../sql/dialect.js";
import { deadConditions, deadParams } from "../sql/message-filter.js";
import type { QueueParts } from "../sql/queue-parts.js";

/** The operations that read dead messages as a whole. */
export function deadOperations<Key extends object, Message extends QueueMessage & Key, State extends string>(
  { db, shape, runner }: QueueParts<Key, Message, State>,
  statements: DeadStatements,
): Pick<Operators<Key>, "deadGroups" | "countDead"> {
  return {
    async deadGroups({ limit = defaults.listLimit, ...filter } = {}) {
      requireBatchSize(limit, "limit");
      deadConditions(filter);
      const params = { ...deadParams(filter, null), limit };
      const rows = await runner.execute(statements.deadGroups, params, filter);
      return rows.map((row) => ({
        errorGroup: row.error_group as string,
        count: Number(row.count),
        firstAt: db.dialect.fromTime(row.first_at),
        lastAt: db.dialect.fromTime(row.last_at),
        example: shape.keyOf(row),
        error: row.last_error as string | null,
      }));
    },

    async countDead(filter = {}) {
      deadConditions(filter);
      const [row] = await runner.execute(statements.countDead, deadParams(filter, null), filter);
      return Number(row!.count);
    },
  };
}
