import { status } from "../dialect.js";
import type { SqlStatement } from "../driver.js";
import { literal } from "../literal.js";
import { bornAt, keyColumns, type QueueNames } from "../names.js";
import { reasons } from "../reasons.js";
import { backoff, isUnclaimed, lease, now, stateOf, unclaimed } from "./expressions.js";
import { cursorTable } from "./names.js";
import { removeDead } from "./partitions.js";
import { steps } from "./steps.js";

/** Of a held row whose `visible_at` has come: its worker lost the lease, which counts as an attempt. */
export const isLost = "s.locked_until is not null";
/** The row has expired, or the lost lease was its last attempt. */
export const dies = `(s.expires_at <= ${now} or (${isLost} and s.attempt + 1 >= :max_attempts))`;

/** The columns that a claim changes. */
const claimed = {
  attempt: `${stateOf.attempt} + (${isLost})`,
  crashes: `${stateOf.crashes} + (${isLost})`,
  lockedUntil: `case when ${dies} then null else ${now} + ${lease} end`,
  visibleAt: `${now} + ${lease} + ${backoff(`${stateOf.attempt} + (${isLost}) + 1`, ":random")}`,
  lastError: `case
    when s.expires_at <= ${now} then ${literal(reasons.expired)}
    when ${isLost} then ${literal(reasons.leaseExpired)}
    else s.last_error
  end`,
};

const messageColumns = (n: QueueNames) =>
  n.kind === "inbox"
    ? "m.source, m.message_id, m.hash, m.first_seen_at, m.last_seen_at, m.deliveries"
    : "m.id, m.message_id, m.created_at";

/**
 * The next :limit messages in the order (visible_at, seq), ready ones and unclaimed ones. An unclaimed one counts from
 * its birth, but never from before the ones that arrived before it, even when the clock went back: the unclaimed ones
 * that are taken are always the first after the cursor. An unclaimed message is due whatever the clock says.
 */
const nextDue = (n: QueueNames) => `select seq from (
  select seq, visible_at from (
    select seq, visible_at from ${n.state}
    where status = ${status.ready} and visible_at <= ${now}
    order by visible_at, seq
    limit :limit
  )
  union all
  select seq, min(max(born) over (order by seq rows unbounded preceding), ${now}) from (
    select m.seq, m.${bornAt(n)} as born ${unclaimed(n)}
    order by m.seq
    limit :limit
  )
)
order by visible_at, seq
limit :limit`;

/**
 * Reads first, and then writes by row number: `update … returning` buffers its rows, and the messages would have to be
 * looked up after it anyway. Both steps compute the same values from one :now and one :random.
 */
export function claimStatement(n: QueueNames, blockOnDead: boolean): SqlStatement {
  const cursor = cursorTable(n);
  const lost = `select seq from ${n.state} where status = ${status.held} and visible_at <= ${now} order by visible_at, seq limit 1`;
  return steps(
    "claim",
    // A message whose worker crashed is claimed alone.
    `select c.seq, m.topic, m.payload, m.partition_key, m.headers, m.correlation_id, m.due_at, ${messageColumns(n)},
  ${claimed.attempt} as attempt, s.expires_at, ${claimed.visibleAt} as next_attempt_at, ${claimed.lockedUntil} as locked_until,
  ${claimed.lastError} as last_error, ${claimed.crashes} as crashes,
  case when s.expires_at <= ${now} then 'expired' when ${dies} then 'exhausted' end as verdict
from (
  select seq from (${lost})
  union all
  select seq from (${nextDue(n)}) where not exists (${lost})
) c
cross join ${n.message} m on m.seq = c.seq
left join ${n.state} s on s.seq = c.seq`,
    // Move the cursor to just before the first unclaimed message that this claim leaves. The search starts at the last
    // message that was taken, when that one was unclaimed.
    `update ${cursor}
set seq = coalesce(
  (
    select m.seq - 1 from ${n.message} m
    where m.seq > (
        select case when ${isUnclaimed(n, "last_seq")} then last_seq else ${cursor}.seq end
        from (select json_extract(:seqs, '$[#-1]') as last_seq)
      )
      and ${isUnclaimed(n, "m.seq")}
    order by m.seq
    limit 1
  ),
  (select max(seq) from ${n.message})
)
where seq < (select max(seq) from ${n.message})`,
    `insert into ${n.state} as s (seq, status, visible_at, locked_until, owner)
select value, ${status.held}, ${now} + ${lease} + ${backoff("1", ":random")}, ${now} + ${lease}, :owner
from json_each(:seqs)
where true
on conflict (seq) do update
set status = case when ${dies} then ${status.dead} else ${status.held} end,
  attempt = ${claimed.attempt},
  crashes = ${claimed.crashes},
  owner = case when ${dies} then null else :owner end,
  locked_until = ${claimed.lockedUntil},
  visible_at = ${claimed.visibleAt},
  last_error = ${claimed.lastError}`,
    ...removeDead(n, blockOnDead),
  );
}

export const keysOf = (n: QueueNames) =>
  keyColumns(n)
    .map((column) => `m.${column}`)
    .join(", ");
