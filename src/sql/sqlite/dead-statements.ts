import type { DeadStatements, OperatorStatements } from "../dialect.js";
import { status } from "../dialect.js";
import { literal } from "../literal.js";
import { type QueueNames, queueId } from "../names.js";
import { insertArchived } from "./archive.js";
import { controlStatements } from "./control-statements.js";
import { keysOf, limit, now, sentSeqs, stepSeqs } from "./expressions.js";
import { attemptsTable } from "./names.js";
import { operationsTable } from "./operations-table.js";
import { leave } from "./partitions.js";
import { steps } from "./steps.js";

/** The time to which ages refer: that of an operation's record, else now. */
const at = `coalesce(:at, ${now})`;

/** Dead messages `s` that match: no other has `died_at`. A message's own row is read only where a condition needs it. */
const dead = (n: QueueNames) => `s.died_at is not null
    and s.died_at <= ${at}
    and (:error_group is null or coalesce(s.error_group, '') = :error_group)
    and (:error is null or instr(s.last_error, :error) > 0)
    and (:older_than_ms is null or s.died_at <= ${at} - :older_than_ms)
    and (:newer_than_ms is null or s.died_at >= ${at} - :newer_than_ms)
    and (coalesce(:topic, :source) is null or exists (
      select 1 from ${n.message} m
      where m.seq = s.seq
        and (:topic is null or m.topic = :topic)
        and (:source is null or ${n.kind === "inbox" ? "m.source = :source" : "false"})
    ))`;

const fromDead = (n: QueueNames) => `from ${n.state} s indexed by ${n.bare("Dead")}`;

export const deadStatements = (n: QueueNames): DeadStatements => ({
  deadGroups: steps(
    "dead groups",
    `select g.error_group, g.count, g.first_at, g.last_at, s.last_error, ${keysOf(n)}
from (
  select coalesce(s.error_group, '') as error_group, count(*) as count, min(s.died_at) as first_at,
    max(s.died_at) as last_at, max(s.seq) as seq
  ${fromDead(n)}
  where ${dead(n)}
  group by coalesce(s.error_group, '')
  order by count desc, error_group
  limit ${limit}
) g
join ${n.state} s on s.seq = g.seq
join ${n.message} m on m.seq = g.seq
order by g.count desc, g.error_group`,
  ),
  countDead: steps(
    "count dead",
    `select count(*) as count
${fromDead(n)}
where ${dead(n)}`,
  ),
});

const operation =
  "id, started_at, who, action, queue, filter, matched, done, last_seq, ended_at, resumed_by, resumed_at";

const sentDead = (n: QueueNames) =>
  `select seq from ${n.state} where seq in ${sentSeqs} and status = ${status.dead}`;

const deleteMessages = (n: QueueNames) => `delete from ${n.message} where seq in ${stepSeqs}`;

/** Steps: the keys stay, and are purged with other Done messages. What they contained is in the archive. */
const keepAsDone = (n: QueueNames): readonly string[] => [
  `update ${n.message} set payload = '', headers = null where seq in ${stepSeqs}`,
  `update ${n.state} set status = ${status.done}, ended_as = :ended_as, processed_at = ${now}, died_at = null where seq in ${stepSeqs}`,
  `delete from ${attemptsTable(n)} where seq in ${stepSeqs}`,
  leave(n),
];

export function operatorStatements(n: QueueNames): OperatorStatements {
  const table = operationsTable(n.schema);
  const queue = literal(queueId(n));
  return {
    // A trigger deletes the state and the attempts, and makes the next message of the partition key ready.
    discard: steps("discard", sentDead(n), deleteMessages(n)),
    archive: steps(
      "archive",
      sentDead(n),
      insertArchived(n),
      ...(n.kind === "inbox" ? keepAsDone(n) : [deleteMessages(n)]),
    ),
    nextDead: steps(
      "next dead",
      `select s.seq
${fromDead(n)}
where s.seq > :after_seq and ${dead(n)}
order by s.seq
limit ${limit}`,
    ),
    addOperation: steps(
      "add operation",
      `insert into ${table} (id, started_at, who, action, queue, filter)
values (:id, ${now}, :who, :action, ${queue}, :filter)
returning ${operation}`,
    ),
    lockOperation: steps(
      "lock operation",
      `select ${operation} from ${table} where id = :id and queue = ${queue}`,
    ),
    moveOperation: steps(
      "move operation",
      `update ${table}
set matched = :matched, done = :done, last_seq = :last_seq, ended_at = case when :ended then ${now} end,
  resumed_by = coalesce(:who, resumed_by), resumed_at = iif(:who is null, resumed_at, ${now})
where id = :id
returning ${operation}`,
    ),
    operations: steps(
      "operations",
      `select ${operation} from ${table} where queue = ${queue} and (:id is null or id = :id)
order by ended_at is null desc, started_at desc, id desc limit ${limit}`,
    ),
    ...controlStatements(n),
  };
}
