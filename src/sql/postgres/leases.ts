import { crashesBeforeAlone } from "../../queue/leases.js";
import { reasonGroup, reasons } from "../dead-letters.js";
import { status } from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import { createdColumn, literal, type QueueNames } from "../names.js";
import {
  controlsTable,
  createFunction,
  doneTable,
  eachColumn,
  epochMs,
  isDue,
  moreAttempts,
  moreCrashes,
  ms,
  named,
  now,
} from "./expressions.js";
import { recordAttempts } from "./history.js";
import { leavePartitions, rejoinPartitions } from "./partitions.js";

export const leaseStatements = (n: QueueNames, blockOnDead: boolean) =>
  named({
    claim: `select r.* from ${n.object("_claim")}(${eachColumn(claimParameters, (name, type) => `:${name}::${type}`)}, ${blockOnDead}) r`,
    ack: `with ${finishing(n)}
${finishedSeqs}`,
    abandon: `with abandoned as (
  update ${n.state} s
  set status = case when i.attempts is null and s.attempt + 1 >= :max_attempts::int then ${status.dead} else ${status.ready} end,
    attempt = ${moreAttempts("coalesce(i.attempts, 1)")},
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
where ${removeDead(n, blockOnDead, "abandoned", "leaving.dead")}
  and ${recordAttempts(
    n,
    `select seq, attempt, ${now} as ended_at, :owner::uuid as worker, error from abandoned where attempts is null`,
  )}`,
    fail: `with ended as (
  update ${n.state} s
  set status = ${status.dead}, attempt = ${moreAttempts("1")}, owner = null, locked_until = null, reclaimable_at = null, last_error = :error,
    error_group = :error_group, last_attempt_at = ${now}, died_at = ${now}
  where s.seq = ${seqs} and ${ownedBy("s")}
  returning s.seq, s.keyed, s.attempt
)
select seq
from ended
where ${removeDead(n, blockOnDead, "ended", "true")}
  and ${recordAttempts(n, `select seq, attempt, ${now} as ended_at, :owner::uuid as worker, :error::text as error from ended`)}`,
    // The message keeps its place in the order, the time since when it was claimable and its count of crashes.
    release: `update ${n.state} s
set owner = null, locked_until = null, reclaimable_at = s.due_since
where s.seq = ${seqs} and ${ownedBy("s")}
returning s.seq`,
    renew: `update ${n.state} s
set locked_until = ${now} + ${lease}, reclaimable_at = ${now} + ${lease} + ${backoff("s.attempt + 1")}
where s.seq = ${seqs} and ${ownedBy("s")}
returning s.seq`,
    replay: `with replayed as (
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
  });

/** Deletes the states and keeps the messages as done. */
const finishing = (n: QueueNames): string => `finished as (
  delete from ${n.state} s
  where s.seq = ${seqs} and ${ownedBy("s")}
  returning s.seq, s.attempt, s.last_error, s.keyed
), kept as (
  insert into ${doneTable(n)} (seq, processed_at, attempt, processed_by, last_error)
  select seq, ${now}, attempt, :processed_by, last_error
  from finished
  where ${leavePartitions(n, "finished")}
)`;

const finishedSeqs = `select count(*) = :count::int as all_changed, case when count(*) <> :count::int then array_agg(seq) end as seqs
from finished`;

/**
 * Two steps: the acknowledgement, and a call of the outbox's function, which needs its result and so comes after it. Each step of the
 * function sees what was committed before it. Partition queues of the outbox are locked at the commit, as by any enqueue. So
 * what may be waited for while the acknowledged rows are locked is another transaction's message with the same natural key.
 */
export const ackAndEnqueue = (n: QueueNames, outbox: QueueNames): SqlStatement =>
  statement(
    "ack and enqueue",
    `with ${finishing(n)}, acked as (
${finishedSeqs}
)
select a.all_changed, a.seqs, e.id, e.known_id
from acked a
left join lateral ${outbox.object("_enqueue")}(
  case when a.all_changed then :outgoing::json else (
    select json_agg(o.message order by o.position)
    from json_array_elements(:outgoing::json) with ordinality as o(message, position)
    where (o.message ->> 'handled')::bigint = any (a.seqs)
  ) end,
  :once::boolean,
  :now::timestamptz
) e on true`,
  );

const claimParameters =
  "owner uuid, limit integer, lease_ms float8, base_ms float8, max_ms float8, factor float8, jitter_ms float8, max_attempts integer, now timestamptz";

/** The columns of a claimed message: their declarations and expressions. */
const claimedColumns = (n: QueueNames): readonly (readonly [declared: string, value: string])[] => [
  ["seq bigint", "s.seq"],
  ["topic text", "m.topic::text"],
  ["type text", "m.type::text"],
  ["payload text", "m.payload"],
  ["headers text", "m.headers"],
  ["correlation_id text", "m.correlation_id::text"],
  ["partition_key text", "m.partition_key::text"],
  ["due_at float8", epochMs("m.due_at")],
  ...(n.kind === "inbox"
    ? ([
        ["source text", "m.source::text"],
        ["message_id text", "m.message_id::text"],
        ["hash text", "m.hash"],
        ["deliveries integer", "m.deliveries"],
        ["last_seen_at float8", epochMs("m.last_seen_at")],
      ] as const)
    : ([
        ["id uuid", "m.id"],
        ["message_id uuid", "m.message_id"],
        ["natural_key text", "m.natural_key::text"],
      ] as const)),
  [`${createdColumn(n)} float8`, epochMs(`m.${createdColumn(n)}`)],
  ["attempt integer", "s.attempt"],
  ["crashes smallint", "s.crashes"],
  ["last_error text", "s.last_error"],
  ["last_attempt_at float8", epochMs("s.last_attempt_at")],
  ["expires_at float8", epochMs("s.expires_at")],
  ["next_attempt_at float8", epochMs("s.reclaimable_at")],
  ["locked_until float8", epochMs("s.locked_until")],
];

/**
 * Leased and crashed rows are skipped until `reclaimable_at`. They keep `visible_at`, and with it their place in the order. A
 * message with two crashes is claimed by itself. `skip locked` skips the rows of other claimers.
 */
export function claimFunction(n: QueueNames): string {
  // A claimable row with a lease was lost by its worker. That counts as an attempt, perhaps the last.
  const hasLease = "s.locked_until is not null";
  const dies = `(s.expires_at <= v_now or (${hasLease} and s.attempt + 1 >= p_max_attempts))`;
  const columns = claimedColumns(n);
  return createFunction(
    n.object("_claim"),
    `${eachColumn(claimParameters, (name, type) => `p_${name} ${type}`)}, p_blocks boolean`,
    `returns table (${columns.map(([declared]) => declared).join(", ")}, verdict text, wait_ms float8)`,
    `#variable_conflict use_column
declare
  v_now timestamptz := coalesce(p_now, statement_timestamp());
  v_seqs bigint[];
  v_is_alone boolean;
  v_may_die boolean := true;
begin
  if exists (select from ${controlsTable(n)}) then
    select p.seqs, p.verdict, p.wait_ms into v_seqs, verdict, wait_ms
    from ${n.object("_pick_controlled")}(p_limit, p_max_attempts, coalesce(p_now, clock_timestamp())) p;
    if verdict is not null then return next; end if;
  else
    select array_agg(d.seq order by d.alone desc, d.visible_at, d.seq), bool_or(d.alone), bool_or(d.may_die)
    into v_seqs, v_is_alone, v_may_die
    from (
      select s.seq, s.visible_at, ${hasLease} or s.expires_at <= v_now as may_die,
        s.crashes + (${hasLease})::int >= ${crashesBeforeAlone} as alone
      from ${n.state} s
      where ${isDue("s", "v_now")}
      order by s.visible_at, s.seq
      limit p_limit
      for update skip locked
    ) d;
    if v_is_alone then v_seqs := v_seqs[1:1]; end if;
  end if;
  if v_seqs is null then return; end if;

  if v_may_die then
    perform ${n.object("_record_attempts")}(json_agg(lost))
    from (${lostAttempts(n.state)} and s.seq = any (v_seqs)) lost;
  end if;

  return query
  update ${n.state} s
  set status = case when ${dies} then ${status.dead} else ${status.ready} end,
    attempt = ${moreAttempts(`(${hasLease})::int`)},
    crashes = ${moreCrashes(`(${hasLease})::int`)},
    owner = case when ${dies} then null else p_owner end,
    locked_until = case when ${dies} then null else v_now + ${ms("p_lease_ms")} end,
    due_since = s.reclaimable_at,
    reclaimable_at = v_now + ${ms("p_lease_ms")} + ${backoff(`s.attempt + (${hasLease})::int + 1`, "p_", "")},
    ${whyEnded("v_now")},
    died_at = case when ${dies} then v_now else s.died_at end
  from ${n.message} m
  where s.seq = any (v_seqs) and m.seq = s.seq
  returning ${columns.map(([, value]) => value).join(", ")},
    case when s.status = ${status.dead} then case when s.expires_at <= v_now then 'expired' else 'exhausted' end end, null::float8;

  if v_may_die and not p_blocks then
    perform ${n.object("_leave_partition")}(array_agg(s.seq))
    from ${n.state} s
    where s.seq = any (v_seqs) and s.status = ${status.dead} and s.keyed;
  end if;
end`,
    "volatile\nset enable_seqscan = off", // plans may be cached while the tables are nearly empty
  );
}

/** Assigns why the state `s` expired or lost its lease, if it did. */
export const whyEnded = (time: string): string => `last_error = case
      when s.expires_at <= ${time} then ${literal(reasons.expired)}
      when s.locked_until is not null then ${literal(reasons.leaseExpired)}
      else s.last_error
    end,
    error_group = case
      when s.expires_at <= ${time} then ${literal(reasonGroup("expired"))}
      when s.locked_until is not null then ${literal(reasonGroup("leaseExpired"))}
      else s.error_group
    end`;

/**
 * The wait after the attempt that `attempts` counts: min(base · factor^n, max) + random(0, jitter). PostgreSQL fails where a power
 * is too large for a float8, so it is computed only below the longest wait.
 */
function backoff(attempts: string, colon = ":", type = "::float8"): string {
  const [base, factor, max, jitter] = ["base_ms", "factor", "max_ms", "jitter_ms"].map(
    (name) => `${colon}${name}${type}`,
  );
  const exponential = `case when (${attempts}) * ln(${factor}) < ln(${max} / ${base}) then ${base} * power(${factor}, ${attempts}) else ${max} end`;
  return ms(`round(${exponential} + random() * ${jitter})`);
}

/** The attempts that ended with their leases, of rows that have not been changed yet. A condition may follow. */
export const lostAttempts = (from: string): string =>
  `select s.seq, ${moreAttempts("1")} as attempt, s.locked_until as ended_at, s.owner as worker, ${literal(reasons.leaseExpired)} as error
      from ${from} s
      where s.locked_until is not null`;

export const lease = ms(":lease_ms::float8");

/** Row numbers come as a JSON array, which with braces instead of brackets is a PostgreSQL array. */
export const seqs = "any (translate(:items, '[]', '{}')::bigint[])";

/** A row that `:owner` holds. Every statement that ends a lease empties the owner. */
const ownedBy = (s: string) => `${s}.owner = :owner::uuid`;

/** A condition that is always true: the dead rows of a CTE leave their partition queues, unless they shall block them. */
export const removeDead = (n: QueueNames, blockOnDead: boolean, cte: string, dead: string): string =>
  blockOnDead ? "true" : leavePartitions(n, cte, dead);
