import { crashesBeforeAlone } from "../../queue/leases.js";
import { reasonGroup, reasons } from "../dead-letters.js";
import { type QueueStatements, status } from "../dialect.js";
import type { SqlStatement } from "../driver.js";
import { createdColumn, literal, type QueueNames } from "../names.js";
import { controlVerdict, isPaused } from "./controls.js";
import {
  backoff,
  controlsTable,
  cursorTable,
  dueSince,
  isUnclaimed,
  lease,
  limit,
  now,
  sentSeqs,
  stateColumns,
  unclaimed,
  whole,
} from "./expressions.js";
import { recordAbandoned, recordFailed } from "./history.js";
import { leave, rejoin, removeDead } from "./partitions.js";
import { steps } from "./steps.js";

/** Of a held row whose `visible_at` has come: its lease has expired, which counts as an attempt. */
export const hasLease = "s.locked_until is not null";
/** The row has expired, or the lost lease was its last attempt. */
export const dies = `(s.expires_at <= ${now} or (${hasLease} and s.attempt + 1 >= :max_attempts))`;

/**
 * Messages that come back from a worker: released, or lost in a crash. They were the first of the queue when they were
 * claimed, and are again.
 */
const returned = (n: QueueNames) => `select seq, visible_at from ${n.state}
    where status = ${status.held} and visible_at <= ${now}
    order by visible_at, seq
    limit ${limit}`;

/** A message that may have killed its process twice. */
const suspect = (n: QueueNames) => `select seq from ${n.state} s
  where s.status = ${status.held} and s.visible_at <= ${now} and s.crashes + (${hasLease}) >= ${crashesBeforeAlone}
  order by s.visible_at, s.seq
  limit 1`;

const ready = (n: QueueNames) => `select seq, visible_at from ${n.state}
    where status = ${status.ready} and visible_at <= ${now}
    order by visible_at, seq
    limit ${limit}`;

/**
 * The first :limit unclaimed messages `m`. The condition stands with the cursor, where SQLite evaluates it once: beside
 * the others it would be evaluated for every message.
 */
const unclaimedIf = (n: QueueNames, condition: string) => `from ${n.message} m
where m.seq > (select seq from ${cursorTable(n)} where ${condition}) and ${isUnclaimed(n, "m.seq")}
order by m.seq
limit ${limit}`;

/**
 * Returned messages, then ready and unclaimed messages in the order (visible_at, seq). Unclaimed messages sort by birth, made non-decreasing in
 * `seq` and capped at now, so that a clock that goes back cannot reorder them. So a claim always takes the first unclaimed
 * messages after the cursor.
 */
const inOrder = (n: QueueNames) => `select seq from (
  select 0 as rank, seq, visible_at from (
    ${returned(n)}
  )
  union all
  select 1, seq, visible_at from (
    ${ready(n)}
  )
  union all
  select 1, seq, min(max(born) over (order by seq rows unbounded preceding), ${now}) from (
    select m.seq, m.${createdColumn(n)} as born
    ${unclaimedIf(n, "true")}
  )
)
order by rank, visible_at, seq
limit ${limit}`;

const onlyUnclaimed = (n: QueueNames) => `not exists (${returned(n)}) and not exists (${ready(n)})`;

/** Row numbers as a JSON array, unless only unclaimed messages are due. A message with two crashes is claimed alone. */
const pickedSeqs = (n: QueueNames) => `case
  when ${isPaused(n)} or (${onlyUnclaimed(n)}) then '[]'
  else coalesce(
    (select json_array(seq) from (${suspect(n)})),
    (select json_group_array(seq) from (${inOrder(n)}))
  )
end`;

/** The values that a claim writes into the state `s`, or into that of an unclaimed message. */
const claimed = {
  attempt: `${stateColumns.attempt} + (${hasLease})`,
  crashes: `${stateColumns.crashes} + (${hasLease})`,
  lockedUntil: `case when ${dies} then null else ${now} + ${lease} end`,
  visibleAt: `${now} + ${lease} + ${backoff(`${stateColumns.attempt} + (${hasLease}) + 1`, ":random")}`,
  lastError: `case
    when s.expires_at <= ${now} then ${literal(reasons.expired)}
    when ${hasLease} then ${literal(reasons.leaseExpired)}
    else s.last_error
  end`,
  errorGroup: `case
    when s.expires_at <= ${now} then ${literal(reasonGroup("expired"))}
    when ${hasLease} then ${literal(reasonGroup("leaseExpired"))}
    else s.error_group
  end`,
};
const unclaimedVisibleAt = `${now} + ${lease} + ${backoff("1", ":random")}`;

/** The columns that few claimed messages have, in one: see `rareColumns` in queue-shape.ts. */
function rareColumns(n: QueueNames, ofState: Readonly<Record<string, string>> = {}): string {
  const ofInbox = {
    hash: "case when m.hash is not null then hex(m.hash) end",
    last_seen_at: "m.last_seen_at",
    deliveries: "m.deliveries",
  };
  const values = {
    headers: "m.headers",
    correlation_id: "m.correlation_id",
    partition_key: "m.partition_key",
    due_at: "m.due_at",
    ...(n.kind === "inbox" ? ofInbox : { natural_key: "m.natural_key" }),
    ...ofState,
  };
  const pairs = Object.entries(values).map(([name, value]) => `'${name}', ${value}`);
  return `json_object(${pairs.join(", ")})`;
}

/** An unclaimed message that came once, with nothing but its payload. */
const isPlain = (n: QueueNames) =>
  `m.headers is null and m.correlation_id is null${
    n.kind === "inbox"
      ? " and m.deliveries = 1 and m.last_seen_at = m.first_seen_at and m.hash is null"
      : " and m.natural_key is null"
  }`;

interface ClaimedColumns {
  readonly visibleAt: string;
  readonly lockedUntil: string;
  readonly rareColumns: string;
  readonly verdict: string;
}

const row = (n: QueueNames, columns: ClaimedColumns) => `select m.seq, m.topic, m.payload,
  ${n.kind === "inbox" ? "m.source" : "m.id"}, m.message_id, m.${createdColumn(n)}, ${columns.visibleAt} as next_attempt_at,
  ${columns.lockedUntil} as locked_until, ${columns.rareColumns} as rare_columns, ${columns.verdict} as verdict`;

/** A row that only says that there are controls, when nothing is due or the whole queue is paused. */
const onlyControlled = (
  n: QueueNames,
) => `select null, null, null, null, null, null, null, null, null, ${controlVerdict(n)}
where exists (select 1 from ${controlsTable(n)})
  and (${isPaused(n)} or (${onlyUnclaimed(n)} and not exists (select 1 ${unclaimed(n)})))`;

/**
 * A subselect is computed once for all rows. When only unclaimed messages are due, nothing is sorted and no state is
 * read: that takes a third of the time.
 */
const claimedRows = (n: QueueNames) => `select * from (
${row(n, {
  visibleAt: `(select ${unclaimedVisibleAt})`,
  lockedUntil: `(select ${now} + ${lease})`,
  rareColumns: `case when not (${isPlain(n)}) then ${rareColumns(n)} end`,
  verdict: controlVerdict(n),
})}
${unclaimedIf(n, `not ${isPaused(n)} and ${onlyUnclaimed(n)}`)}
)
union all
${row(n, {
  visibleAt: claimed.visibleAt,
  lockedUntil: claimed.lockedUntil,
  rareColumns: rareColumns(n, {
    attempt: claimed.attempt,
    crashes: claimed.crashes,
    last_error: claimed.lastError,
    last_attempt_at: "s.last_attempt_at",
    expires_at: "s.expires_at",
  }),
  verdict: `case when s.expires_at <= ${now} then 'expired' when ${dies} then 'exhausted' else ${controlVerdict(n)} end`,
})}
from json_each(${pickedSeqs(n)}) picked
cross join ${n.message} m on m.seq = picked.value
left join ${n.state} s on s.seq = m.seq
union all
${onlyControlled(n)}`;

/**
 * Moves the cursor to just before the first unclaimed message that the claim leaves. If the last claimed message was
 * unclaimed, the search starts after it.
 */
const moveCursor = (n: QueueNames) => `update ${cursorTable(n)}
set seq = coalesce(
  (
    select m.seq - 1 from ${n.message} m
    where m.seq > (
        select case when ${isUnclaimed(n, "last_seq")} then last_seq else ${cursorTable(n)}.seq end
        from (select json_extract(:seqs, '$[#-1]') as last_seq)
      )
      and ${isUnclaimed(n, "m.seq")}
    order by m.seq
    limit 1
  ),
  (select max(seq) from ${n.message})
)
where seq < (select max(seq) from ${n.message}) and not ${isPaused(n)}`;

const leaseRows = (
  n: QueueNames,
) => `insert into ${n.state} as s (seq, status, visible_at, locked_until, owner)
select value, ${status.held}, ${unclaimedVisibleAt}, ${now} + ${lease}, :owner
from json_each(:seqs)
where value is not null
on conflict (seq) do update
set status = case when ${dies} then ${status.dead} else ${status.held} end,
  attempt = ${claimed.attempt},
  crashes = ${claimed.crashes},
  owner = case when ${dies} then null else :owner end,
  locked_until = ${claimed.lockedUntil},
  due_since = s.visible_at,
  visible_at = ${claimed.visibleAt},
  last_error = ${claimed.lastError},
  error_group = ${claimed.errorGroup},
  died_at = case when ${dies} then ${now} else s.died_at end`;

/**
 * Reads first, and then writes by row number: `update … returning` buffers its rows, and the messages would have to be
 * looked up after it. Both steps compute the same values from one :now and one :random.
 */
export const claimStatement = (n: QueueNames, blockOnDead: boolean): SqlStatement =>
  steps("claim", claimedRows(n), moveCursor(n), leaseRows(n), ...removeDead(n, blockOnDead));

/** A row that `:owner` holds. */
const isOwned = "s.owner = :owner";

type SettleStatements = Pick<QueueStatements, "ack" | "abandon" | "fail" | "release" | "renew" | "replay">;

export const settleStatements = (n: QueueNames, blockOnDead: boolean): SettleStatements => ({
  ack: steps(
    "ack",
    `update ${n.state} as s
set status = ${status.done}, owner = null, locked_until = null, processed_at = ${now}, processed_by = :processed_by
where s.seq in ${sentSeqs} and ${isOwned}
returning seq`,
    leave(n),
  ),
  abandon: steps(
    "abandon",
    `update ${n.state} as s
set status = case when i.attempts is null and s.attempt + 1 >= :max_attempts then ${status.dead} else ${status.ready} end,
  attempt = s.attempt + coalesce(i.attempts, 1),
  crashes = 0,
  owner = null,
  locked_until = null,
  visible_at = ${now} + coalesce(${whole("round(i.delay_ms)")}, ${backoff("s.attempt + 1")}),
  last_error = coalesce(i.error, s.last_error),
  error_group = iif(i.error is null, s.error_group, i.error_group),
  last_attempt_at = case when i.attempts = 0 then s.last_attempt_at else ${now} end,
  died_at = case when i.attempts is null and s.attempt + 1 >= :max_attempts then ${now} else s.died_at end
from (
  select json_extract(value, '$.seq') as seq, json_extract(value, '$.delay_ms') as delay_ms, json_extract(value, '$.error') as error,
    json_extract(value, '$.error_group') as error_group, json_extract(value, '$.attempts') as attempts
  from json_each(:items)
) i
where s.seq = i.seq and ${isOwned}
returning seq, status = ${status.dead} as dead`,
    recordAbandoned(n),
    ...removeDead(n, blockOnDead),
  ),
  fail: steps(
    "fail",
    `update ${n.state} as s
set status = ${status.dead}, attempt = s.attempt + 1, owner = null, locked_until = null, last_error = :error,
  error_group = :error_group, last_attempt_at = ${now}, died_at = ${now}
where s.seq in ${sentSeqs} and ${isOwned}
returning seq`,
    recordFailed(n),
    ...removeDead(n, blockOnDead),
  ),
  // It stays held, so the next claim takes it before the messages that have never been claimed.
  release: steps(
    "release",
    `update ${n.state} as s
set owner = null, locked_until = null, visible_at = ${dueSince(n)}
where s.seq in ${sentSeqs} and ${isOwned}
returning seq`,
  ),
  renew: steps(
    "renew",
    `update ${n.state} as s
set locked_until = ${now} + ${lease}, visible_at = ${now} + ${lease} + ${backoff("s.attempt + 1")}
where s.seq in ${sentSeqs} and ${isOwned}
returning seq`,
  ),
  replay: steps(
    "replay",
    `update ${n.state} as s
set status = ${status.ready}, attempt = 0, crashes = 0, owner = null, locked_until = null, visible_at = ${now},
  expires_at = ${now} + ${whole(":ttl_ms")}, processed_at = null, died_at = null
where s.seq in ${sentSeqs} and s.status = ${status.dead}
returning seq`,
    ...rejoin(n),
  ),
});
