import { status } from "../dialect.js";
import { createdColumn, type QueueNames } from "../names.js";
import { isPaused } from "./controls.js";
import { attemptsTable, doneTable, epochMs, messages, ms, named, now } from "./expressions.js";

export function readStatements(n: QueueNames) {
  const claimable = `s.status = ${status.ready} and coalesce(s.reclaimable_at, s.visible_at) <= ${now}`;
  return named(
    {
      resolve:
        n.kind === "inbox"
          ? `select m.seq, m.source, m.message_id
from jsonb_to_recordset(:items::jsonb) as i(source text, message_id text)
join ${n.message} m on m.source = i.source and m.message_id = i.message_id`
          : `select m.seq, m.id
from jsonb_to_recordset(:items::jsonb) as i(id uuid)
join ${n.message} m on m.id = i.id`,
      get: `select ${row(n)}
${messages(n)}
where ${byKey(n)}`,
      attempts: `select a.attempt, ${epoch("a.ended_at", "ended_at")}, a.worker, a.error
from ${n.message} m
join ${attemptsTable(n)} a on a.seq = m.seq
where ${byKey(n)}
order by a.number`,
      list: list(n),
      stats: `select s.status, s.locked_until is not null as leased, s.attempt > 0 as retried, s.paused, count(*)::float8 as count,
  (count(*) filter (where ${claimable}))::float8 as due,
  (extract(epoch from ${now} - min(coalesce(s.reclaimable_at, s.visible_at)) filter (where ${claimable})) * 1000)::float8 as oldest_due_ms,
  (count(*) filter (where s.status = ${status.dead} and s.expires_at <= ${now}))::float8 as expired, null as resolution
from (
  select s.*, s.status in (${status.ready}, ${status.processing}, ${status.blocked}) and ${isPaused(n)} as paused
  from ${n.state} s
) s
group by 1, 2, 3, 4
union all
${countDone(n)}`,
      oldestDue: `select (extract(epoch from ${now} - min(coalesce(s.reclaimable_at, s.visible_at))) * 1000)::float8 as oldest_due_ms
from ${n.state} s
where ${claimable} and not ${isPaused(n)}`,
    },
    ["list"],
  );
}

const epoch = (column: string, name: string) => `${epochMs(column)} as ${name}`;

const messageColumns = (n: QueueNames) =>
  n.kind === "inbox"
    ? `m.source, m.message_id, m.hash, m.deliveries, ${epoch("m.first_seen_at", "first_seen_at")}, ${epoch("m.last_seen_at", "last_seen_at")}`
    : `m.id, m.message_id, m.natural_key, ${epoch("m.created_at", "created_at")}`;

/** Of a done message: how an operator resolved it. The outbox keeps no such message. */
const resolution = (n: QueueNames) => (n.kind === "inbox" ? "d.resolution" : "null");

/** The row of a message in any state. A message without a state row is done. */
const row = (
  n: QueueNames,
) => `m.seq, m.topic, m.type, m.payload, m.partition_key, m.headers, m.correlation_id, ${epoch("m.due_at", "due_at")},
  coalesce(s.attempt, d.attempt) as attempt, ${epoch("case when s.seq is null then m.expires_at else s.expires_at end", "expires_at")},
  ${epoch("coalesce(s.reclaimable_at, s.visible_at, d.processed_at)", "next_attempt_at")}, ${epoch("s.locked_until", "locked_until")},
  coalesce(s.last_error, d.last_error) as last_error, ${epoch("s.last_attempt_at", "last_attempt_at")},
  ${epoch("s.died_at", "died_at")}, s.error_group, coalesce(s.crashes, 0) as crashes, ${messageColumns(n)},
  coalesce(s.status, ${status.done}) as status, s.owner, ${epoch("d.processed_at", "processed_at")}, d.processed_by,
  ${resolution(n)} as resolution`;

/** The message that the key's parameters name. */
const byKey = (n: QueueNames) =>
  n.kind === "inbox" ? "m.source = :source and m.message_id = :message_id" : "m.id = :id::uuid";

/** The time from which a message's age counts. */
const ageFrom = (n: QueueNames) =>
  `case when s.status = ${status.dead} then s.died_at else m.${createdColumn(n)} end`;

const wantedMessage = (n: QueueNames) => `(:topic::text is null or m.topic = :topic)
    and (:source::text is null or ${n.kind === "inbox" ? "m.source = :source" : "false"})
    and (:older_than_ms::float8 is null or ${ageFrom(n)} <= ${now} - ${ms(":older_than_ms::float8")})
    and (:newer_than_ms::float8 is null or ${ageFrom(n)} >= ${now} - ${ms(":newer_than_ms::float8")})`;

const wantedState = (
  lastError: string,
) => `(:leased::boolean is null or (s.locked_until is not null) = :leased::boolean)
    and (:error::text is null or position(:error in ${lastError}) > 0)
    and (:error_group::text is null or coalesce(s.error_group, '') = :error_group)`;

/**
 * Of its two parts one is ruled out when the statement is planned, which is each time. A list of unfinished messages starts
 * from their states, message by message, in order: joined as the planner likes, a page of dead messages read every Done message
 * before them.
 */
const list = (n: QueueNames) => `(
  select ${row(n)}
  ${messages(n)}
  where (:status::int is null or (:status::int = ${status.done} and s.seq is null))
    and m.seq > :after_seq::bigint
    and ${wantedMessage(n)}
    and ${wantedState("coalesce(s.last_error, d.last_error)")}
    and (:resolution::text is null or ${n.kind === "inbox" ? "d.resolution = :resolution" : "false"})
  order by m.seq
  limit :limit::int
)
union all
(
  select ${row(n)}
  from ${n.state} s
  cross join lateral (
    select m.* from ${n.message} m
    where m.seq = s.seq
      and ${wantedMessage(n)}
    offset 0
  ) m
  left join ${doneTable(n)} d on false
  where :status::int <> ${status.done} and :resolution::text is null
    and s.status in (:status::int, :status_2::int, :status_3::int)
    and s.seq > :after_seq::bigint
    and ${wantedState("s.last_error")}
  order by s.seq
  limit :limit::int
)`;

/**
 * All done messages are counted by the primary key, and those that operators have ended by their partial index: a group by a column
 * would read every row.
 */
function countDone(n: QueueNames): string {
  const counted = (count: string, resolution: string) =>
    `select ${status.done}, false, false, false, (${count})::float8, 0, null, 0, ${resolution}`;
  const all = `(select count(*) from ${doneTable(n)})`;
  if (n.kind === "outbox") return counted(all, "null");
  const ended = `from ${doneTable(n)} d where d.resolution is not null`;
  return `${counted(`${all} - (select count(*) ${ended})`, "null")}
union all
${counted("count(*)", "d.resolution")}
${ended}
group by d.resolution`;
}
