import type {
  InboxStatementOptions,
  InboxStatements,
  OutboxStatements,
  QueueStatements,
} from "../dialect.js";
import { status } from "../dialect.js";
import { statement } from "../driver.js";
import { literal } from "../literal.js";
import { bornAt, keyColumns, lastSeenAt, type QueueNames } from "../names.js";
import { reasons } from "../reasons.js";

/** The database's clock, unless a test passes a time. Stable within a statement, so an index can use it. */
const now = "coalesce(:now::timestamptz, statement_timestamp())";
const ms = (expression: string) => `(${expression}) * interval '1 millisecond'`;
const lease = ms(":lease_ms::float8");

/** The wait after the attempt that `attempts` counts: min(base · factor^n, max) + random(0, jitter). */
const backoff = (attempts: string) =>
  ms(
    `round(least(:max_ms::float8, :base_ms::float8 * power(:factor::float8, least(${attempts}, 64))) + random() * :jitter_ms::float8)`,
  );

/** Row numbers sent as a JSON array. As an array, not a join: the planner then takes the primary key. */
const seqs = "any (array(select value::bigint from jsonb_array_elements_text(:items::jsonb)))";

/**
 * A row that `:owner` holds: whatever ends a lease empties the owner. `status = held` beside it would let the
 * planner read the index of held rows, and all its dead entries, instead of the primary key.
 */
const ownedBy = (s: string) => `${s}.owner = :owner::uuid`;

/** Milliseconds since 1970: a number is cheaper to write and to read than a timestamp's text. */
const epoch = (column: string, name: string) => `date_part('epoch', ${column}) * 1000 as ${name}`;

const messageColumns = (n: QueueNames) =>
  n.kind === "inbox"
    ? `m.source, m.message_id, m.hash, m.deliveries, ${epoch("m.first_seen_at", "first_seen_at")}, ${epoch("m.last_seen_at", "last_seen_at")}`
    : `m.id, m.message_id, ${epoch("m.created_at", "created_at")}`;

/** Of a row that a claim has just leased: without what is the same for all of them, or empty. */
const claimedRow = (
  n: QueueNames,
) => `s.seq, m.topic, m.payload, m.headers, m.correlation_id, ${epoch("m.due_at", "due_at")},
  s.attempt, ${epoch("s.expires_at", "expires_at")}, ${epoch("s.visible_at", "next_attempt_at")},
  ${epoch("s.locked_until", "locked_until")}, s.last_error, s.crashes, ${messageColumns(n)}`;

const row = (n: QueueNames) => `${claimedRow(n)},
  s.status, s.owner, ${epoch("s.processed_at", "processed_at")}, s.processed_by`;

function queueStatements(n: QueueNames): QueueStatements {
  // A held row whose time has come was lost by its worker: that counts as an attempt, perhaps the last.
  const lost = "s.locked_until is not null";
  const dies = `(s.expires_at <= ${now} or (${lost} and s.attempt + 1 >= :max_attempts::int))`;
  return {
    // The row locks are taken in the CTEs, where `skip locked` steps over other claimers' rows. The update
    // finds its rows through array(…) because a join on a LIMIT of unknown size is planned for a tenth of
    // the table.
    claim: statement(
      "claim",
      `with crashed as (
  select s.seq
  from ${n.state} s
  where s.status = ${status.held} and s.visible_at <= ${now}
  order by s.visible_at, s.seq
  limit 1
  for update skip locked
), due as (
  select s.seq
  from ${n.state} s
  where s.status = ${status.ready} and s.visible_at <= ${now} and not exists (select from crashed)
  order by s.visible_at, s.seq
  limit (select :limit::int)
  for update skip locked
)
update ${n.state} s
set status = case when ${dies} then ${status.dead} else ${status.held} end,
  attempt = s.attempt + (${lost})::int,
  crashes = s.crashes + (${lost})::int,
  owner = case when ${dies} then null else :owner::uuid end,
  locked_until = case when ${dies} then null else ${now} + ${lease} end,
  visible_at = ${now} + ${lease} + ${backoff(`s.attempt + (${lost})::int + 1`)},
  last_error = case
    when s.expires_at <= ${now} then ${literal(reasons.expired)}
    when ${lost} then ${literal(reasons.leaseExpired)}
    else s.last_error
  end
from ${n.message} m
where s.seq = any (array(select seq from crashed union all select seq from due)) and m.seq = s.seq
returning ${claimedRow(n)},
  case when s.status = ${status.held} then 'claimed' when s.expires_at <= ${now} then 'expired' else 'exhausted' end as verdict`,
    ),
    ack: statement(
      "ack",
      `update ${n.state} s
set status = ${status.done}, owner = null, locked_until = null, processed_at = ${now}, processed_by = :processed_by
where s.seq = ${seqs} and ${ownedBy("s")}
returning s.seq`,
    ),
    abandon: statement(
      "abandon",
      `update ${n.state} s
set status = case when s.attempt + 1 >= :max_attempts::int then ${status.dead} else ${status.ready} end,
  attempt = s.attempt + 1,
  crashes = 0,
  owner = null,
  locked_until = null,
  visible_at = ${now} + coalesce(${ms("i.delay_ms")}, ${backoff("s.attempt + 1")}),
  last_error = coalesce(i.error, s.last_error)
from jsonb_to_recordset(:items::jsonb) as i(seq bigint, delay_ms float8, error text)
where s.seq = i.seq and ${ownedBy("s")}
returning s.seq, s.status = ${status.dead} as dead`,
    ),
    fail: statement(
      "fail",
      `update ${n.state} s
set status = ${status.dead}, attempt = s.attempt + 1, owner = null, locked_until = null, last_error = :error
where s.seq = ${seqs} and ${ownedBy("s")}
returning s.seq`,
    ),
    // One that came back from a crash goes on waiting to be claimed alone.
    release: statement(
      "release",
      `update ${n.state} s
set status = case when s.crashes > 0 then ${status.held} else ${status.ready} end,
  owner = null, locked_until = null, visible_at = ${now}
where s.seq = ${seqs} and ${ownedBy("s")}
returning s.seq`,
    ),
    renew: statement(
      "renew",
      `update ${n.state} s
set locked_until = ${now} + ${lease}, visible_at = ${now} + ${lease} + ${backoff("s.attempt + 1")}
where s.seq = ${seqs} and ${ownedBy("s")}
returning s.seq`,
    ),
    // visible_at already holds the end of the lease and the back-off after it: whoever finds it first,
    // reaper or claim, comes to the same time.
    reap: statement(
      "reap",
      `with over as (
  select s.seq
  from ${n.state} s
  where s.status = ${status.held} and s.locked_until < ${now}
  limit (select :limit::int)
  for update skip locked
), stale as (
  select s.seq
  from ${n.state} s
  where s.expires_at <= ${now} and s.expires_at is not null
    and s.status in (${status.ready}, ${status.held}) and s.locked_until is null
  limit (select :limit::int)
  for update skip locked
), reaped as (
  update ${n.state} s
  set status = case when ${dies} then ${status.dead} else ${status.held} end,
    attempt = s.attempt + (${lost})::int,
    crashes = s.crashes + (${lost})::int,
    owner = null,
    locked_until = null,
    last_error = case when s.expires_at <= ${now} then ${literal(reasons.expired)} else ${literal(reasons.leaseExpired)} end
  where s.seq = any (array(select seq from over union all select seq from stale limit (select :limit::int)))
  returning s.seq, s.status, s.expires_at
)
select r.seq, ${keyColumns(n)
        .map((c) => `m.${c}`)
        .join(", ")},
  case when r.status <> ${status.dead} then 'reaped' when r.expires_at <= ${now} then 'expired' else 'exhausted' end as verdict
from reaped r
join ${n.message} m on m.seq = r.seq`,
    ),
    // Walks the primary key in windows instead of keeping an index of Done rows, which every ack would
    // pay for. The message goes first: a redelivery that just touched it keeps both.
    purge: statement(
      "purge",
      `with scanned as (
  select s.seq, s.status, s.processed_at
  from ${n.state} s
  where s.seq > :after_seq::bigint
  order by s.seq
  limit (select :limit::int)
), old as (
  select m.seq
  from ${n.message} m
  where m.seq = any (array(
      select seq from scanned
      where status = ${status.done} and processed_at < ${now} - ${ms(":retention_ms::float8")}
    ))
    and m.${lastSeenAt(n)} < ${now} - ${ms(":retention_ms::float8")}
  for update skip locked
), gone as (
  delete from ${n.message} m
  where m.seq = any (array(select seq from old))
  returning m.seq
), forgotten as (
  delete from ${n.state} s
  where s.seq = any (array(select seq from gone))
)
select (select count(*) from gone)::int as deleted,
  (select max(seq) from scanned) as last_seq,
  (select count(*) = :limit::int from scanned) and exists (
    select from ${n.message} m
    where m.seq = (select max(seq) from scanned) and m.${bornAt(n)} < ${now} - ${ms(":retention_ms::float8")}
  ) as more`,
    ),
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
from ${n.message} m
join ${n.state} s on s.seq = m.seq
where ${n.kind === "inbox" ? "m.source = :source and m.message_id = :message_id" : "m.id = :id::uuid"}`,
    ),
    list: {
      ...statement(
        "list",
        `select ${row(n)}
from ${n.state} s
join ${n.message} m on m.seq = s.seq
where s.seq > :after_seq::bigint
  and (:status::int is null or s.status in (:status::int, :status_2::int))
  and (:leased::boolean is null or (s.locked_until is not null) = :leased::boolean)
  and (:topic::text is null or m.topic = :topic)
  and (:source::text is null or ${n.kind === "inbox" ? "m.source = :source" : "false"})
  and (:error::text is null or position(:error in s.last_error) > 0)
  and (:older_than_ms::float8 is null or m.${bornAt(n)} <= ${now} - ${ms(":older_than_ms::float8")})
  and (:newer_than_ms::float8 is null or m.${bornAt(n)} >= ${now} - ${ms(":newer_than_ms::float8")})
order by s.seq
limit (select :limit::int)`,
      ),
      unprepared: true,
    },
    stats: statement(
      "stats",
      `select s.status, s.locked_until is not null as leased, count(*)::float8 as count,
  (count(*) filter (where s.visible_at <= ${now} and s.status in (${status.ready}, ${status.held})))::float8 as due,
  (extract(epoch from ${now} - min(s.visible_at) filter (where s.visible_at <= ${now} and s.status in (${status.ready}, ${status.held}))) * 1000)::float8 as oldest_due_ms
from ${n.state} s
group by s.status, s.locked_until is not null`,
    ),
    replay: statement(
      "replay",
      `update ${n.state} s
set status = ${status.ready}, attempt = 0, crashes = 0, visible_at = ${now}, expires_at = null, processed_at = null
where s.seq = ${seqs} and s.status = ${status.dead}
returning s.seq`,
    ),
  };
}

/** Where new messages come from: scalar parameters, or a JSON array of objects with the same names. */
const scalarOutbox = `select :id::uuid as id, :message_id::uuid as message_id, :topic::text as topic, :payload::text as payload,
    :correlation_id::text as correlation_id, :headers::text as headers,
    :due_at::timestamptz as due_at, :expires_at::timestamptz as expires_at`;
const jsonOutbox = `select i.id, i.message_id, i.topic, i.payload, i.correlation_id, i.headers, i.due_at, i.expires_at
  from json_to_recordset(:items::json) as i(id uuid, message_id uuid, topic text, payload text, correlation_id text,
    headers text, due_at timestamptz, expires_at timestamptz)`;

export function inboxStatements(n: QueueNames, options: InboxStatementOptions): InboxStatements {
  const revive = String(options.reviveDead);
  return {
    ...queueStatements(n),
    receive: statement(
      "receive",
      `select r.* from ${n.object("_receive")}(:source, :message_id, :topic, :payload, :hash, :correlation_id, :headers,
  :due_at::timestamptz, :expires_at::timestamptz, ${revive}, :now::timestamptz) r`,
    ),
    receiveMany: statement(
      "receive many",
      `select r.* from ${n.object("_receive_many")}(:items::json, ${revive}, :now::timestamptz) r`,
    ),
    alreadyProcessed: statement(
      "already processed",
      `select r.* from ${n.object("_already_processed")}(:source, :message_id, :hash, :now::timestamptz) r`,
    ),
    // By hand, past any lease: Processing only from Seen; Dead never from Done. A message marked
    // Processing by hand is its marker's to finish, so it is visible to claims only at the end of time.
    mark: statement(
      "mark",
      `with arrived as (
  insert into ${n.message} as m (source, message_id, topic, payload, first_seen_at, last_seen_at)
  values (:source, :message_id, '', '', ${now}, ${now})
  on conflict (source, message_id) do update
  set last_seen_at = excluded.last_seen_at
  returning seq, last_seen_at
)
insert into ${n.state} as s (seq, status, visible_at, processed_at, last_error)
select seq, :status::int, timestamptz '9999-12-31 00:00:00+00',
  case when :status::int = ${status.done} then last_seen_at end, :error::text
from arrived
on conflict (seq) do update
set status = excluded.status,
  owner = null,
  locked_until = null,
  visible_at = excluded.visible_at,
  processed_at = excluded.processed_at,
  last_error = coalesce(excluded.last_error, s.last_error)
where case excluded.status when ${status.held} then s.status = ${status.seen} else s.status <> ${status.done} end
returning s.seq`,
    ),
  };
}

export function outboxStatements(n: QueueNames): OutboxStatements {
  // The caller makes the ids, so that an enqueue whose answer was lost can be repeated and adds nothing.
  const enqueue = (incoming: string) => `with added as (
  insert into ${n.message} (id, message_id, topic, payload, correlation_id, headers, due_at, expires_at, created_at)
  select i.*, ${now}
  from (${incoming}) i
  on conflict (id) do nothing
  returning seq, due_at, expires_at, created_at
)
insert into ${n.state} (seq, status, visible_at, expires_at)
select seq, ${status.ready}, coalesce(due_at, created_at), expires_at
from added`;

  return {
    ...queueStatements(n),
    enqueue: statement("enqueue", enqueue(scalarOutbox)),
    enqueueMany: statement("enqueue many", enqueue(jsonOutbox)),
  };
}
