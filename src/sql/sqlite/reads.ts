import { type QueueStatements, status } from "../dialect.js";
import { createdColumn, type QueueNames } from "../names.js";
import { hasStatus } from "../views.js";
import { isHeld, isPaused } from "./controls.js";
import {
  attemptsTable,
  cursorTable,
  keysOf,
  limit,
  messages,
  now,
  stateColumns,
  unclaimed,
  visibleAt,
} from "./expressions.js";
import { steps } from "./steps.js";

const listed = [":status", ":status_2", ":status_3", ":status_4", ":status_5"];

type ReadStatements = Pick<QueueStatements, "resolve" | "get" | "attempts" | "list" | "stats" | "oldestDue">;

const row = (
  n: QueueNames,
  seq = "m.seq",
) => `${seq}, m.topic, m.payload, m.partition_key, m.headers, m.correlation_id, m.due_at,
  ${stateColumns.attempt} as attempt, s.expires_at, ${visibleAt(n)} as next_attempt_at, s.locked_until, s.owner, s.last_error, s.last_attempt_at,
  s.died_at, s.error_group, s.processed_at, s.processed_by, ${stateColumns.crashes} as crashes, ${stateColumns.status} as status, m.message_id,
  ${n.kind === "inbox" ? "m.source, m.hash, m.first_seen_at, m.last_seen_at, m.deliveries, s.ended_as" : "m.id, m.created_at, m.natural_key"}`;

/** The message that the key's parameters name. */
const byKey = (n: QueueNames) =>
  n.kind === "inbox" ? "m.source = :source and m.message_id = :message_id" : "m.id = :id";

/** The time from which a message's age counts: no other than a dead one has `died_at`. */
const ageFrom = (n: QueueNames) => `coalesce(s.died_at, m.${createdColumn(n)})`;

/** The conditions of a list on the message. */
const wanted = (n: QueueNames) => `(:topic is null or m.topic = :topic)
  and (:source is null or ${n.kind === "inbox" ? "m.source = :source" : "false"})
  and (:older_than_ms is null or ${ageFrom(n)} <= ${now} - :older_than_ms)
  and (:newer_than_ms is null or ${ageFrom(n)} >= ${now} - :newer_than_ms)`;

/** Messages with a state. */
const listStates = (n: QueueNames, index: string, condition: string) => `select ${row(n, "s.seq")}
from ${n.state} s${index}
cross join ${n.message} m on m.seq = s.seq
where s.seq > :after_seq
  and ${condition}
  and (:leased is null or (s.locked_until is not null) = :leased)
  and (:error is null or instr(s.last_error, :error) > 0)
  and (:error_group is null or coalesce(s.error_group, '') = :error_group)
  and ${wanted(n)}`;

/** Messages that an operator has ended: the outbox keeps none. */
const listEnded = (n: QueueNames) =>
  n.kind === "inbox"
    ? `\nunion all\n${listStates(n, ` indexed by ${n.bare("EndedAs")}`, `s.ended_as = :ended_as and (:status is null or :status = ${status.done})`)}`
    : "";

const oldestUnclaimedMs = (n: QueueNames) =>
  `(select max(0, ${now} - m.${createdColumn(n)}) ${unclaimed(n)} order by m.seq limit 1)`;

/** The first message that no pause of its topic or source holds: the claims park the others within one poll. */
const oldestOf = (n: QueueNames, one: number) => `select (
    select ${now} - s.visible_at from ${n.state} s
    where s.status = ${one} and s.visible_at <= ${now} and not ${isHeld(n, `(select * from ${n.message} where seq = s.seq) m`)}
    order by s.visible_at, s.seq
    limit 1
  ) as age`;

const isWaitingOrLeased = `s.status in (${status.ready}, ${status.held}, ${status.blocked}, ${status.parked})`;

const isDue = `s.visible_at <= ${now} and s.status in (${status.ready}, ${status.held})`;

export const readStatements = (n: QueueNames): ReadStatements => ({
  resolve: steps(
    "resolve",
    `select m.seq, ${keysOf(n)}
from json_each(:items) i
join ${n.message} m on ${
      n.kind === "inbox"
        ? "m.source = json_extract(i.value, '$.source') and m.message_id = json_extract(i.value, '$.message_id')"
        : "m.id = json_extract(i.value, '$.id')"
    }`,
  ),
  get: steps(
    "get",
    `select ${row(n)}
${messages(n)}
where ${byKey(n)}`,
  ),
  attempts: steps(
    "attempts",
    `select a.attempt, a.ended_at, a.worker, a.error
from ${n.message} m
join ${attemptsTable(n)} a on a.seq = m.seq
where ${byKey(n)}
order by a.number`,
  ),
  // SQLite merges the walks by row number and stops at the limit: a page of dead letters reads neither the messages that
  // wait nor, by the index of dead messages, those that are done. Those of states are in the order of the state's own number: by
  // the message's number SQLite would sort all of them.
  list: steps(
    "list",
    `${listStates(n, "", `:ended_as is null and :status is not ${status.dead} and (:status is null or ${hasStatus("s", listed)})`)}
union all
${listStates(n, ` indexed by ${n.bare("Dead")}`, `:status = ${status.dead} and s.died_at is not null`)}${listEnded(n)}
union all
select ${row(n)}
${messages(n)}
where m.seq > max(:after_seq, (select seq from ${cursorTable(n)}))
  and s.seq is null
  and (:status is null or ${status.ready} in (${listed.join(", ")}))
  and (:leased is null or not :leased)
  and :ended_as is null
  and :error is null
  and :error_group is null
  and ${wanted(n)}
order by 1
limit ${limit}`,
  ),
  // Every state has its message, so the unclaimed messages are counted without reading any of them.
  stats: steps(
    "stats",
    `with known as materialized (
  select s.status, s.locked_until is not null as leased, s.attempt > 0 as retried, s.held, ${n.kind === "inbox" ? "s.ended_as" : "null"} as ended_as,
    count(*) as count,
    count(*) filter (where ${isDue}) as due,
    ${now} - min(s.visible_at) filter (where ${isDue}) as oldest_due_ms,
    count(*) filter (where s.status = ${status.dead} and s.expires_at <= ${now}) as expired
  from (select s.*, ${isWaitingOrLeased} and ${isHeld(n, `(select * from ${n.message} where seq = s.seq) m`)} as held from ${n.state} s) s
  group by 1, 2, 3, 4, 5
),
unclaimed (held, count) as materialized (
  select 1, (select count(*) ${unclaimed(n)} and ${isHeld(n, "(select 1)")})
  union all
  select 0, (select count(*) from ${n.message}) - (select coalesce(sum(count), 0) from known)
    - (select count(*) ${unclaimed(n)} and ${isHeld(n, "(select 1)")})
)
select status, leased, retried, held, ended_as, count, due, oldest_due_ms, expired, ${isPaused(n)} as paused from known
union all
select ${status.ready}, 0, 0, held, null, count, count, ${oldestUnclaimedMs(n)}, 0, ${isPaused(n)}
from unclaimed
where count > 0`,
  ),
  oldestDue: steps(
    "oldest_due",
    `select max(age) as oldest_due_ms
from (
  ${oldestOf(n, status.ready)}
  union all
  ${oldestOf(n, status.held)}
  union all
  select (select max(0, ${now} - m.${createdColumn(n)}) ${unclaimed(n)} and not ${isHeld(n, "(select 1)")} order by m.seq limit 1)
)
where not ${isPaused(n)}`,
  ),
});
