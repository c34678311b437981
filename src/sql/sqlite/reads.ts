import { status } from "../dialect.js";
import { createdColumn, type QueueNames } from "../names.js";
import { holdsState } from "./controls.js";
import { attemptsTable, doneTable, isDue, limit, messages, now, statusOf } from "./expressions.js";

/** The columns of a message `m` with its state row `s` and its done row `d`. */
export const messageRow = (
  n: QueueNames,
  seq = "m.seq",
) => `${seq}, m.topic, m.type, m.payload, m.partition_key, m.headers, m.correlation_id, m.due_at,
  coalesce(s.attempt, d.attempt) as attempt, iif(s.seq is null, m.expires_at, s.expires_at) as expires_at,
  coalesce(s.reclaimable_at, s.visible_at, d.processed_at) as next_attempt_at, s.locked_until, s.owner,
  coalesce(s.last_error, d.last_error) as last_error, s.last_attempt_at, s.died_at, s.error_group, d.processed_at, d.processed_by,
  coalesce(s.crashes, 0) as crashes, ${statusOf} as status, m.message_id,
  ${n.kind === "inbox" ? "m.source, m.hash, m.first_seen_at, m.last_seen_at, m.deliveries, d.resolution" : "m.id, m.created_at, m.natural_key"}`;

/** The message that the key's parameters name. */
const byKey = (n: QueueNames) =>
  n.kind === "inbox" ? "m.source = :source and m.message_id = :message_id" : "m.id = :id";

/** The time from which a message's age counts. */
const ageFrom = (n: QueueNames) => `iif(s.status = ${status.dead}, s.died_at, m.${createdColumn(n)})`;

const wanted = (n: QueueNames, lastError: string) => `(:topic is null or m.topic = :topic)
  and (:source is null or ${n.kind === "inbox" ? "m.source = :source" : "false"})
  and (:older_than_ms is null or ${ageFrom(n)} <= ${now} - :older_than_ms)
  and (:newer_than_ms is null or ${ageFrom(n)} >= ${now} - :newer_than_ms)
  and (:leased is null or (s.locked_until is not null) = :leased)
  and (:error is null or instr(${lastError}, :error) > 0)
  and (:error_group is null or coalesce(s.error_group, '') = :error_group)`;

/** Unfinished messages. */
const listStates = (n: QueueNames, index: string, condition: string) => `select ${messageRow(n, "s.seq")}
from ${n.state} s${index}
cross join ${n.message} m on m.seq = s.seq
left join ${doneTable(n)} d on d.seq = m.seq
where :resolution is null and ${condition}
  and s.seq > :after_seq
  and ${wanted(n, "s.last_error")}`;

/** Done messages. */
const listDone = (n: QueueNames, index: string, condition: string) => `select ${messageRow(n, "d.seq")}
from ${doneTable(n)} d${index}
cross join ${n.message} m on m.seq = d.seq
left join ${n.state} s on s.seq = m.seq
where coalesce(:status, ${status.done}) = ${status.done} and ${condition}
  and d.seq > :after_seq
  and ${wanted(n, "d.last_error")}`;

/**
 * SQLite merges the parts by row number and stops at the limit. Of most of them it only evaluates a condition on the
 * parameters: a page of dead messages reads neither those that wait nor those that are done.
 */
export const list = (n: QueueNames) =>
  `${[
    listStates(
      n,
      "",
      `:status is not ${status.dead} and (:status is null or s.status in (:status, :status_2, :status_3))`,
    ),
    listStates(n, ` indexed by ${n.bare("Dead")}`, `:status = ${status.dead} and s.status = ${status.dead}`),
    listDone(n, "", ":resolution is null"),
    ...(n.kind === "inbox"
      ? [listDone(n, ` indexed by ${n.bare("Resolution")}`, "d.resolution = :resolution")]
      : []),
  ].join("\nunion all\n")}
order by 1
limit ${limit}`;

/**
 * All done messages are counted by the primary key, and those that operators have resolved by their index: a group by a column
 * would read every row.
 */
function countDone(n: QueueNames): string {
  const counted = (count: string, resolution: string) =>
    `select ${status.done}, 0, 0, 0, ${count}, 0, null, 0, ${resolution}`;
  const all = `(select count(*) from ${doneTable(n)})`;
  if (n.kind === "outbox") return counted(all, "null");
  const resolved = `from ${doneTable(n)} indexed by ${n.bare("Resolution")} where resolution is not null`;
  return `${counted(`${all} - (select count(*) ${resolved})`, "null")}
union all
${counted("count(*)", "resolution")}
${resolved}
group by resolution`;
}

const isUnfinished = `s.status in (${status.ready}, ${status.processing}, ${status.blocked})`;
const dueSince = "coalesce(s.reclaimable_at, s.visible_at)";

export const get = (n: QueueNames) => `select ${messageRow(n)}
${messages(n)}
where ${byKey(n)}`;

export const attempts = (n: QueueNames) => `select a.attempt, a.ended_at, a.worker, a.error
from ${n.message} m
join ${attemptsTable(n)} a on a.seq = m.seq
where ${byKey(n)}
order by a.number`;

export const stats = (n: QueueNames) =>
  `select s.status, s.locked_until is not null as leased, s.attempt > 0 as retried, ${isUnfinished} and ${holdsState(n)} as paused,
  count(*) as count,
  count(*) filter (where ${isDue}) as due,
  ${now} - min(${dueSince}) filter (where ${isDue}) as oldest_due_ms,
  count(*) filter (where s.status = ${status.dead} and s.expires_at <= ${now}) as expired,
  null as resolution
from ${n.state} s
group by 1, 2, 3, 4
union all
${countDone(n)}`;

export const oldestDue = (n: QueueNames) => `select ${now} - min(${dueSince}) as oldest_due_ms
from ${n.state} s
where ${isDue} and not ${holdsState(n)}`;
