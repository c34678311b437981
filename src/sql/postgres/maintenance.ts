import { type QueueStatements, status } from "../dialect.js";
import { statement } from "../driver.js";
import { createdColumn, lastSeenAt, type QueueNames } from "../names.js";
import { attemptsTable, doneTable, ms, now } from "./expressions.js";
import { purgeOperations } from "./history.js";
import { isInPartition } from "./partitions.js";

const before = `${now} - ${ms(":retention_ms::float8")}`;

/** The condition of a purge on the messages of one source. */
const ofSource = (n: QueueNames) =>
  n.kind === "inbox" ? `\n    and (:source::text is null or m.source = :source::text)` : "";

/** What a purge deleted, and whether a later window may have more: no message ends before it is enqueued. */
const result = (n: QueueNames) => `select (select count(*) from gone)::int as deleted,
  (select max(seq) from scanned) as last_seq,
  (select count(*) = :limit::int from scanned) and exists (
    select from ${n.message} m
    where m.seq = (select max(seq) from scanned) and m.${createdColumn(n)} < ${before}
  ) as more`;

const goneMessages = (n: QueueNames) => `gone as (
  delete from ${n.message} m
  where m.seq = any (array(select seq from old))
  returning m.seq
), gone_attempts as (
  delete from ${attemptsTable(n)} a
  where a.seq = any (array(select seq from gone))
)`;

export const purgeStatements = (
  n: QueueNames,
): Pick<QueueStatements, "purge" | "purgeDead" | "purgeOperations"> => ({
  // Walks the primary key of the done rows in windows. An index of their times would be paid for by every ack. The
  // message is deleted first: a redelivery that has just locked it keeps both rows.
  purge: statement(
    "purge",
    `with scanned as (
  select d.seq, d.processed_at
  from ${doneTable(n)} d
  where d.seq > :after_seq::bigint
  order by d.seq
  limit (select :limit::int)
), old as (
  select m.seq
  from ${n.message} m
  where m.seq = any (array(select seq from scanned where processed_at < ${before}))
    and m.${lastSeenAt(n)} < ${before}${ofSource(n)}
  for update skip locked
), ${goneMessages(n)}, gone_done as (
  delete from ${doneTable(n)} d
  where d.seq = any (array(select seq from gone))
)
${result(n)}`,
  ),
  // Walks the index of dead messages in windows.
  purgeDead: statement(
    "purge dead",
    `with scanned as (
  select s.seq, s.died_at
  from ${n.state} s
  where s.status = ${status.dead} and s.seq > :after_seq::bigint
  order by s.seq
  limit (select :limit::int)
), old as (
  select m.seq
  from ${n.message} m
  join ${n.state} s on s.seq = m.seq
  where m.seq = any (array(select seq from scanned where died_at < ${before}))
    and m.${lastSeenAt(n)} < ${before}
    and s.status = ${status.dead} and s.died_at < ${before}
    and coalesce(s.locked_until <= ${now}, true) -- another process tells of its expiry
    and not ${isInPartition(n, "s")}
  for update skip locked
), ${goneMessages(n)}, gone_states as (
  delete from ${n.state} s
  where s.seq = any (array(select seq from gone))
)
${result(n)}`,
  ),
  purgeOperations: purgeOperations(n),
});
