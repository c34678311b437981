import { crashesBeforeAlone } from "../../queue/leases.js";
import { beforeThat, reasonGroup, reasons } from "../dead-letters.js";
import {
  type InboxStatements,
  type OutboxStatements,
  type QueueStatementOptions,
  type QueueStatements,
  status,
} from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import { createdColumn, keyColumns, literal, type QueueNames } from "../names.js";
import { hasStatus } from "../views.js";
import { applyControls, controlVerdict, isHeld, isPaused, mayFree } from "./controls.js";
import { attemptsTable, doneTable, epochMs, ms, now } from "./expressions.js";
import { recordAttempts } from "./history.js";
import { purgeStatements } from "./maintenance.js";
import { leavePartitions, pendingArrivals, rejoinPartitions, unblock } from "./partitions.js";
import { messages } from "./views.js";

const lease = ms(":lease_ms::float8");

/** The wait after the attempt that `attempts` counts: min(base · factor^n, max) + random(0, jitter). */
const backoff = (attempts: string) =>
  ms(
    `round(least(:max_ms::float8, :base_ms::float8 * power(:factor::float8, least(${attempts}, 64))) + random() * :jitter_ms::float8)`,
  );

/** Row numbers come as a JSON array, which with braces instead of brackets is a PostgreSQL array. */
const seqs = "any (translate(:items, '[]', '{}')::bigint[])";

/** A row that `:owner` holds. Every statement that ends a lease empties the owner. */
const ownedBy = (s: string) => `${s}.owner = :owner::uuid`;

const epoch = (column: string, name: string) => `${epochMs(column)} as ${name}`;

const messageColumns = (n: QueueNames) =>
  n.kind === "inbox"
    ? `m.source, m.message_id, m.hash, m.deliveries, ${epoch("m.first_seen_at", "first_seen_at")}, ${epoch("m.last_seen_at", "last_seen_at")}`
    : `m.id, m.message_id, m.natural_key, ${epoch("m.created_at", "created_at")}`;

/** Of a done message: how an operator ended it. The outbox keeps no such message. */
const resolution = (n: QueueNames) => (n.kind === "inbox" ? "d.resolution" : "null");

/** The row of a message in any state. A message without a state row is done. */
const row = (
  n: QueueNames,
) => `m.seq, m.topic, m.payload, m.partition_key, m.headers, m.correlation_id, ${epoch("m.due_at", "due_at")},
  coalesce(s.attempt, d.attempt) as attempt, ${epoch("case when s.seq is null then m.expires_at else s.expires_at end", "expires_at")},
  ${epoch("coalesce(s.reclaimable_at, s.visible_at, d.processed_at)", "next_attempt_at")}, ${epoch("s.locked_until", "locked_until")},
  coalesce(s.last_error, d.last_error) as last_error, ${epoch("s.last_attempt_at", "last_attempt_at")},
  ${epoch("s.died_at", "died_at")}, s.error_group, coalesce(s.crashes, 0) as crashes, ${messageColumns(n)},
  coalesce(s.status, ${status.done}) as status, s.owner, ${epoch("d.processed_at", "processed_at")}, d.processed_by,
  ${resolution(n)} as resolution`;

/**
 * The row of a message that a claim has just leased: the columns that nearly every message has, and the others as JSON in
 * one column, `rare_columns`, when any of them is set. The time to read a row grows with the number of its columns.
 */
function claimedRow(n: QueueNames): string {
  const inbox = n.kind === "inbox";
  const isPlain = [
    "s.attempt = 0",
    "s.last_error is null",
    "s.expires_at is null",
    "m.due_at is null",
    "m.headers is null",
    "m.correlation_id is null",
    "m.partition_key is null",
    ...(inbox ? ["m.hash is null", "m.deliveries = 1"] : ["m.natural_key is null"]),
  ].join(" and ");
  const rareColumns = [
    `'attempt', s.attempt, 'crashes', s.crashes, 'last_error', s.last_error, 'last_attempt_at', ${epochMs("s.last_attempt_at")}, 'headers', m.headers`,
    `'correlation_id', m.correlation_id, 'partition_key', m.partition_key, 'due_at', ${epochMs("m.due_at")}, 'expires_at', ${epochMs("s.expires_at")}`,
    ...(inbox
      ? [
          `'hash', encode(m.hash, 'hex'), 'deliveries', m.deliveries, 'last_seen_at', ${epochMs("m.last_seen_at")}`,
        ]
      : [`'natural_key', m.natural_key`]),
  ].join(", ");
  return `s.seq, m.topic, m.payload, ${inbox ? "m.source" : "m.id"}, m.message_id, ${epoch(`m.${createdColumn(n)}`, createdColumn(n))},
  ${epoch("s.reclaimable_at", "next_attempt_at")}, ${epoch("s.locked_until", "locked_until")},
  case when not (${isPlain}) then json_build_object(${rareColumns})::text end as rare_columns`;
}

const claimedColumns = (n: QueueNames) =>
  `seq, topic, payload, ${n.kind === "inbox" ? "source" : "id"}, message_id, ${createdColumn(n)}, next_attempt_at, locked_until, rare_columns`;

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
    and ${hasStatus("s", [":status::int", ":status_2::int", ":status_3::int", ":status_4::int", ":status_5::int"])}
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
    `select ${status.done}, false, false, false, (${count})::float8, 0, null, 0, false, ${resolution}`;
  const all = `(select count(*) from ${doneTable(n)})`;
  if (n.kind === "outbox") return counted(all, "null");
  const ended = `from ${doneTable(n)} d where d.resolution is not null`;
  return `${counted(`${all} - (select count(*) ${ended})`, "null")}
union all
${counted("count(*)", "d.resolution")}
${ended}
group by d.resolution`;
}

function queueStatements(n: QueueNames, { blockOnDead }: QueueStatementOptions): QueueStatements {
  // A claimable row with a lease was lost by its worker. That counts as an attempt, perhaps the last.
  const hasLease = "s.locked_until is not null";
  const dies = `(s.expires_at <= ${now} or (${hasLease} and s.attempt + 1 >= :max_attempts::int))`;
  const claimable = `s.status = ${status.ready} and coalesce(s.reclaimable_at, s.visible_at) <= ${now}`;
  const diedAt = `case when ${dies} then ${now} else s.died_at end`;
  /** The attempts that ended with their leases. */
  const lostAttempts = (cte: string) =>
    recordAttempts(
      n,
      cte,
      {
        attempt: "failed.attempt + 1",
        endedAt: "failed.locked_until",
        worker: "failed.owner",
        error: literal(reasons.leaseExpired),
      },
      "failed.locked_until is not null",
    );
  /** A condition that is always true: the dead rows of a CTE leave their partition queues, unless they shall block them. */
  const removeDead = (cte: string, dead: string) => (blockOnDead ? "true" : leavePartitions(n, cte, dead));
  return {
    // Leased and crashed rows are skipped until `reclaimable_at`. They keep `visible_at`, and with it their place in the
    // order. A message with two crashes is claimed alone. The rows are locked first, where `skip locked` skips the rows of other claimers, and then found
    // again by their ctid, which cannot change while they are locked.
    claim: statement(
      "claim",
      `with ${controlVerdict(n)}, due as (
  select s.ctid as row_id, s.visible_at, s.seq, s.attempt, s.locked_until, s.owner,
    s.crashes + (${hasLease})::int >= ${crashesBeforeAlone} as alone
  from ${n.state} s
  where s.status = ${status.ready} and s.visible_at <= ${now} and (s.reclaimable_at is null or s.reclaimable_at <= ${now})
  order by s.visible_at, s.seq
  limit (select case when control.verdict = 'paused' then 0 else :limit::int end from control)
  for update skip locked
), picked as (
  select * from due
  order by alone desc, visible_at, seq
  limit (select case when bool_or(alone) then 1 else :limit::int end from due)
), claimed as (
update ${n.state} s
set status = case when ${dies} then ${status.dead} else ${status.ready} end,
  attempt = s.attempt + (${hasLease})::int,
  crashes = s.crashes + (${hasLease})::int,
  owner = case when ${dies} then null else :owner::uuid end,
  locked_until = case when ${dies} then null else ${now} + ${lease} end,
  due_since = s.reclaimable_at,
  reclaimable_at = ${now} + ${lease} + ${backoff(`s.attempt + (${hasLease})::int + 1`)},
  last_error = case
    when s.expires_at <= ${now} then ${literal(reasons.expired)}
    when ${hasLease} then ${literal(reasons.leaseExpired)}
    else s.last_error
  end,
  error_group = case
    when s.expires_at <= ${now} then ${literal(reasonGroup("expired"))}
    when ${hasLease} then ${literal(reasonGroup("leaseExpired"))}
    else s.error_group
  end,
  died_at = ${diedAt}
from ${n.message} m
where s.ctid = any (array(select row_id from picked))
  and m.seq = s.seq
  and ${lostAttempts("picked")}
returning ${claimedRow(n)},
  case
    when s.status = ${status.ready} then null${
      blockOnDead
        ? ""
        : `
    when case when s.keyed then ${n.object("_leave_partition")}(array[s.seq]) end then null -- never true; makes the next message of the key ready`
    }
    when s.expires_at <= ${now} then 'expired'
    else 'exhausted'
  end as death
)
select ${claimedColumns(n)}, coalesce(claimed.death, control.verdict) as verdict
from control
left join claimed on true
where claimed.seq is not null or control.verdict is not null`,
    ),
    applyControls: applyControls(n),
    ack: statement(
      "ack",
      `with finished as (
  delete from ${n.state} s
  where s.seq = ${seqs} and ${ownedBy("s")}
  returning s.seq, s.attempt, s.last_error, s.keyed
), kept as (
  insert into ${doneTable(n)} (seq, processed_at, attempt, processed_by, last_error)
  select seq, ${now}, attempt, :processed_by, last_error
  from finished
  where ${leavePartitions(n, "finished")}
)
select count(*) = :count::int as all_changed, case when count(*) <> :count::int then array_agg(seq) end as seqs
from finished`,
    ),
    abandon: statement(
      "abandon",
      `with abandoned as (
  update ${n.state} s
  set status = case when i.attempts is null and s.attempt + 1 >= :max_attempts::int then ${status.dead} else ${status.ready} end,
    attempt = s.attempt + coalesce(i.attempts, 1),
    crashes = 0,
    owner = null,
    locked_until = null,
    reclaimable_at = null,
    visible_at = ${now} + coalesce(${ms("i.delay_ms")}, ${backoff("s.attempt + 1")}),
    last_error = coalesce(i.error, s.last_error),
    error_group = case when i.error is null then s.error_group else i.error_group end,
    last_attempt_at = case when i.attempts = 0 then s.last_attempt_at else ${now} end,
    died_at = case when i.attempts is null and s.attempt + 1 >= :max_attempts::int then ${now} else s.died_at end
  from jsonb_to_recordset(:items::jsonb) as i(seq bigint, delay_ms float8, error text, error_group text, attempts int)
  where s.seq = i.seq and ${ownedBy("s")}
  returning s.seq, s.status = ${status.dead} as dead, s.keyed, s.attempt, i.attempts, i.error
)
select seq, dead
from abandoned
where ${removeDead("abandoned", "leaving.dead")}
  and ${recordAttempts(
    n,
    "abandoned",
    { attempt: "failed.attempt", endedAt: now, worker: ":owner::uuid", error: "failed.error" },
    "failed.attempts is null",
  )}`,
    ),
    fail: statement(
      "fail",
      `with ended as (
  update ${n.state} s
  set status = ${status.dead}, attempt = s.attempt + 1, owner = null, locked_until = null, reclaimable_at = null, last_error = :error,
    error_group = :error_group, last_attempt_at = ${now}, died_at = ${now}
  where s.seq = ${seqs} and ${ownedBy("s")}
  returning s.seq, s.keyed, s.attempt
)
select seq
from ended
where ${removeDead("ended", "true")}
  and ${recordAttempts(n, "ended", { attempt: "failed.attempt", endedAt: now, worker: ":owner::uuid", error: ":error::text" })}`,
    ),
    // The message keeps its place in the order, the time since when it was claimable and its count of crashes.
    release: statement(
      "release",
      `update ${n.state} s
set owner = null, locked_until = null, reclaimable_at = s.due_since
where s.seq = ${seqs} and ${ownedBy("s")}
returning s.seq`,
    ),
    renew: statement(
      "renew",
      `update ${n.state} s
set locked_until = ${now} + ${lease}, reclaimable_at = ${now} + ${lease} + ${backoff("s.attempt + 1")}
where s.seq = ${seqs} and ${ownedBy("s")}
returning s.seq`,
    ),
    // reclaimable_at already holds the end of the lease plus the back-off and stays, so reaper and claim come to the same time. Leases and
    // expiries have no index, because every message would pay for it: the table holds only unfinished messages, and a
    // claim finds lost and expired ones by itself.
    reap: statement(
      "reap",
      `with ended as (
  select s.seq, s.attempt, s.locked_until, s.owner
  from ${n.state} s
  where s.status in (${status.ready}, ${status.blocked}, ${status.parked})
    and case when ${hasLease} then s.locked_until < ${now} else s.expires_at <= ${now} end
  limit (select :limit::int)
  for update skip locked
), reaped as (
  update ${n.state} s
  set status = case when ${dies} then ${status.dead} else s.status end,
    attempt = s.attempt + (${hasLease})::int,
    crashes = s.crashes + (${hasLease})::int,
    owner = null,
    locked_until = null,
    last_error = case when s.expires_at <= ${now} then ${literal(reasons.expired)} else ${literal(reasons.leaseExpired)} end,
    error_group = case when s.expires_at <= ${now} then ${literal(reasonGroup("expired"))} else ${literal(reasonGroup("leaseExpired"))} end,
    last_attempt_at = coalesce(s.locked_until, s.last_attempt_at),
    died_at = ${diedAt},
    passes = null
  where s.seq = any (array(select seq from ended))
  returning s.seq, s.status, s.expires_at, s.keyed
)
select r.seq, ${keyColumns(n)
        .map((c) => `m.${c}`)
        .join(", ")},
  case when r.status <> ${status.dead} then 'reaped' when r.expires_at <= ${now} then 'expired' else 'exhausted' end as verdict
from reaped r
join ${n.message} m on m.seq = r.seq
where ${removeDead("reaped", `leaving.status = ${status.dead}`)}${blockOnDead ? "" : ` and ${unblock(n)}`}
  and ${lostAttempts("ended")}`,
    ),
    ...purgeStatements(n),
    resolve: statement(
      "resolve",
      n.kind === "inbox"
        ? `select m.seq, m.source, m.message_id
from jsonb_to_recordset(:items::jsonb) as i(source text, message_id text)
join ${n.message} m on m.source = i.source and m.message_id = i.message_id`
        : `select m.seq, m.id
from jsonb_to_recordset(:items::jsonb) as i(id uuid)
join ${n.message} m on m.id = i.id`,
    ),
    get: statement(
      "get",
      `select ${row(n)}
${messages(n)}
where ${byKey(n)}`,
    ),
    list: { ...statement("list", list(n)), unprepared: true },
    attempts: statement(
      "attempts",
      `select a.attempt, ${epoch("a.ended_at", "ended_at")}, a.worker, a.error
from ${n.message} m
join ${attemptsTable(n)} a on a.seq = m.seq
where ${byKey(n)}
order by a.number`,
    ),
    stats: statement(
      "stats",
      `select s.status, s.locked_until is not null as leased, s.attempt > 0 as retried, s.held, count(*)::float8 as count,
  (count(*) filter (where ${claimable}))::float8 as due,
  (extract(epoch from ${now} - min(coalesce(s.reclaimable_at, s.visible_at)) filter (where ${claimable})) * 1000)::float8 as oldest_due_ms,
  (count(*) filter (where s.status = ${status.dead} and s.expires_at <= ${now}))::float8 as expired,
  (select ${isPaused(n)}) as paused, null as resolution
from (
  select s.*, s.status in (${status.ready}, ${status.held}, ${status.blocked}, ${status.parked}) and ${isHeld(n)} as held
  from ${n.state} s
) s
group by 1, 2, 3, 4
union all
${countDone(n)}`,
    ),
    oldestDue: statement(
      "oldest_due",
      `select (extract(epoch from ${now} - min(coalesce(s.reclaimable_at, s.visible_at))) * 1000)::float8 as oldest_due_ms
from ${n.state} s
where ${claimable} and not ${isPaused(n)} and not ${isHeld(n)}`,
    ),
    replay: statement(
      "replay",
      `with replayed as (
  update ${n.state} s
  set status = case when s.keyed then ${status.blocked} else ${status.ready} end,
    attempt = 0, crashes = 0, owner = null, locked_until = null, reclaimable_at = null, visible_at = ${now},
    died_at = null, expires_at = ${now} + ${ms(":ttl_ms::float8")}
  where s.seq = ${seqs} and s.status = ${status.dead}
  returning s.seq, s.keyed
)
select seq
from replayed
where ${rejoinPartitions(n, "replayed")}`,
    ),
  };
}

/** New messages as a table: from scalar parameters, or from a JSON array of objects with the same names. */
const scalarOutbox = `select :id::uuid as id, :message_id::uuid as message_id, :topic::text as topic, :payload::text as payload,
    :correlation_id::text as correlation_id, :headers::text as headers,
    :due_at::timestamptz as due_at, :expires_at::timestamptz as expires_at`;
const jsonOutbox = `select i.id, i.message_id, i.topic, i.payload, i.correlation_id, i.headers, i.due_at, i.expires_at
  from json_to_recordset(:items::json) as i(id uuid, message_id uuid, topic text, payload text, correlation_id text,
    headers text, due_at timestamptz, expires_at timestamptz)`;

export function inboxStatements(n: QueueNames, options: QueueStatementOptions): InboxStatements {
  return {
    ...queueStatements(n, options),
    alreadyProcessed: statement(
      "already processed",
      `select r.* from ${n.object("_already_processed")}(:source, :message_id, :hash, :now::timestamptz) r`,
    ),
  };
}

export function outboxStatements(n: QueueNames, options: QueueStatementOptions): OutboxStatements {
  const saysNothing = `position(${literal(reasons.expired)} in coalesce(s.last_error, '')) = 0`;
  // The caller makes the ids. An enqueue whose result was lost can therefore be repeated and adds nothing.
  const enqueue = (newMessages: string) => `with added as (
  insert into ${n.message} (id, message_id, topic, payload, correlation_id, headers, due_at, expires_at, created_at)
  select i.*, ${now}
  from (${newMessages}) i
  on conflict (id) do nothing
  returning seq, due_at, expires_at, created_at
)
insert into ${n.state} (seq, status, visible_at, expires_at)
select seq, ${status.ready}, coalesce(due_at, created_at), expires_at
from added`;

  return {
    ...queueStatements(n, options),
    enqueue: statement("enqueue", enqueue(scalarOutbox)),
    enqueueMany: statement("enqueue many", enqueue(jsonOutbox)),
    enqueueKeyed: statement(
      "enqueue keyed",
      `with added as (
  insert into ${n.message} (id, message_id, topic, payload, correlation_id, headers, due_at, expires_at, partition_key, created_at)
  select i.*, ${now}
  from json_to_recordset(:items::json) as i(id uuid, message_id uuid, topic text, payload text, correlation_id text,
    headers text, due_at timestamptz, expires_at timestamptz, partition_key text)
  on conflict (id) do nothing
  returning seq, due_at, expires_at, created_at, partition_key
), arrivals as (
  insert into ${pendingArrivals(n)} (seqs)
  select array_agg(seq) from added where partition_key is not null having count(*) > 0
)
insert into ${n.state} (seq, status, visible_at, expires_at, keyed)
select seq, case when partition_key is null then ${status.ready} else ${status.blocked} end, coalesce(due_at, created_at),
  expires_at, case when partition_key is not null then true end
from added`,
    ),
    enqueueOnce: statement(
      "enqueue once",
      `select r.* from ${n.object("_enqueue_once")}(:items::json, :now::timestamptz) r`,
    ),
    expireDead: statement(
      "expire dead",
      `with ended as (
  select s.seq
  from ${n.state} s
  where s.status = ${status.dead} and s.expires_at <= ${now}
    and case when s.locked_until is null then ${saysNothing} else s.locked_until <= ${now} end
  limit (select :limit::int)
  for update skip locked
), expired as (
  update ${n.state} s
  set owner = :owner::uuid,
    locked_until = ${now} + ${lease},
    last_error = case when ${saysNothing} then concat_ws(${literal(beforeThat)}, ${literal(reasons.expired)}, s.last_error) else s.last_error end
  where s.seq = any (array(select seq from ended))
  returning s.seq
)
select e.seq, m.id
from expired e
join ${n.message} m on m.seq = e.seq`,
    ),
    listDone: statement(
      "list done",
      `select d.seq, m.id, m.topic, ${epoch("d.processed_at", "processed_at")}
from ${doneTable(n)} d
join ${n.message} m on m.seq = d.seq
where d.seq > :after_seq::bigint
order by d.seq
limit (select :limit::int)`,
    ),
    resend: statement(
      "resend",
      `with sent as (
  delete from ${doneTable(n)} d
  where d.seq = ${seqs}
  returning d.seq, d.last_error
), ready as (
  insert into ${n.state} (seq, status, visible_at, expires_at, last_error, keyed)
  select sent.seq, case when m.partition_key is null then ${status.ready} else ${status.blocked} end, ${now},
    ${now} + ${ms(":ttl_ms::float8")}, sent.last_error, case when m.partition_key is not null then true end
  from sent
  join ${n.message} m on m.seq = sent.seq
  returning seq, keyed
)
select seq
from ready
where ${rejoinPartitions(n, "ready")}`,
    ),
    makeDue: statement(
      "make due",
      `with waiting as (
  select s.seq
  from ${n.state} s
  where s.status = ${status.ready} and s.visible_at > ${now} and s.locked_until is null and s.last_error = :error
  limit (select :limit::int)
  for update skip locked
)
update ${n.state} s
set visible_at = ${now}
where s.seq = any (array(select seq from waiting))
returning s.seq`,
    ),
  };
}

/** One row when a claim would find a message, or may free one. */
const anyDue = (n: QueueNames) => `(
  select '${n.kind}' as queue
  from ${n.state}
  where status = ${status.ready} and visible_at <= statement_timestamp()
    and (reclaimable_at is null or reclaimable_at <= statement_timestamp())
    and not ${isPaused(n)}
  limit 1
)
union
select '${n.kind}' where ${mayFree(n)} and not ${isPaused(n)}`;

/** Returns no rows in the usual case: one row with two columns that say no takes a tenth longer. */
export const pollStatement = (inbox: QueueNames, outbox: QueueNames): SqlStatement =>
  statement("poll", `${anyDue(inbox)}\nunion\n${anyDue(outbox)}`);
