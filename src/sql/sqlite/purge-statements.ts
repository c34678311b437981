import { type QueueStatements, status } from "../dialect.js";
import type { SqlStatement } from "../driver.js";
import { bornAt, lastSeenAt, type QueueNames } from "../names.js";
import { limit, now, whole } from "./expressions.js";
import { partitionQueue } from "./names.js";
import { purgeOperations } from "./operations-table.js";
import { steps } from "./steps.js";

const before = `${now} - ${whole(":retention_ms")}`;

/**
 * Walks states `s` in windows, and deletes the messages `m` that match. A trigger deletes the state and the attempts. A later
 * window may have more while its messages are old enough: no message ends before it is enqueued.
 */
const purge = (n: QueueNames, name: string, states: string, inWindow: string, isOld: string): SqlStatement =>
  steps(
    name,
    `select w.last_seq,
  w.rows = :limit and exists (
    select 1 from ${n.message} m where m.seq = w.last_seq and m.${bornAt(n)} < ${before}
  ) as more
from (
  select max(seq) as last_seq, count(*) as rows
  from (select s.seq from ${states} where ${inWindow} and s.seq > :after_seq order by s.seq limit ${limit})
) w`,
    `delete from ${n.message}
where seq in (
  select m.seq
  from json_each(:rows) r
  cross join ${states}
  cross join ${n.message} m on m.seq = s.seq
  where ${inWindow} and s.seq > :after_seq and s.seq <= json_extract(r.value, '$.last_seq')
    and m.${lastSeenAt(n)} < ${before}
    and ${isOld}
)`,
    `select changes() as deleted, json_extract(r.value, '$.last_seq') as last_seq, json_extract(r.value, '$.more') as more
from json_each(:rows) r`,
  );

const ofSource = (n: QueueNames) =>
  n.kind === "inbox" ? "\n    and (:source is null or m.source = :source)" : "";

export const purgeStatements = (
  n: QueueNames,
): Pick<QueueStatements, "purge" | "purgeDead" | "purgeOperations"> => ({
  // By the primary key. An index of Done rows would cost every ack.
  purge: purge(
    n,
    "purge",
    `${n.state} s`,
    "true",
    `s.status = ${status.done} and s.processed_at < ${before}${ofSource(n)}`,
  ),
  // Without those that another process tells the expiry of.
  purgeDead: purge(
    n,
    "purge dead",
    `${n.state} s indexed by ${n.bare("Dead")}`,
    "s.died_at is not null",
    `s.died_at < ${before} and coalesce(s.locked_until <= ${now}, true)
    and not exists (select 1 from ${partitionQueue(n)} q where q.seq = s.seq)`,
  ),
  purgeOperations: purgeOperations(n),
});
