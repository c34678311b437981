import { crashesBeforeAlone } from "../../queue/leases.js";
import { reasonGroup, reasons } from "../dead-letters.js";
import { status } from "../dialect.js";
import { literal, type QueueNames } from "../names.js";
import { onlyIf } from "./connection.js";
import {
  holdsState,
  isPaused,
  overLimits,
  refillTokens,
  takeTokens,
  tokenWaitMs,
  waitsForToken,
} from "./controls.js";
import {
  backoff,
  doneTable,
  field,
  isDue,
  keysOf,
  lease,
  limit,
  moreAttempts,
  moreCrashes,
  now,
  sentSeqs,
  stepSeqs,
  whole,
} from "./expressions.js";
import { recordAbandoned, recordFailed, recordLost } from "./history.js";
import { joinPartitions, leavePartitions, removeDead } from "./partitions.js";

const hasExpired = `s.expires_at <= ${now}`;
/** The message has expired, or the lost lease was its last attempt. */
const dies = `(${hasExpired} or (s.locked_until is not null and s.attempt + 1 >= :max_attempts))`;

/**
 * A message with two crashes is claimed by itself. Nearly no claim finds one that died or whose lease was lost. One row for all
 * of them: the binding takes as long to return a row as SQLite to find it.
 */
const pick = (n: QueueNames) => `with due as materialized (
  select s.seq, s.visible_at, s.locked_until is not null as is_lost, s.crashes + (s.locked_until is not null) >= ${crashesBeforeAlone} as alone, ${dies} as dies
  from ${n.state} s
  where ${isDue} and not ${isPaused(n)} and not ${holdsState(n)} and (${dies} or not ${waitsForToken(n)})
  order by s.visible_at, s.seq
  limit ${limit}
), allowed as materialized (
  select * from due where seq not in (${overLimits(n)})
)
select json_group_array(seq) as seqs, max(has_ended) as has_ended, count(*) > 0 as is_any, count(*) = 0 as is_none
from (
  select seq, is_lost or dies as has_ended
  from allowed
  order by alone desc, visible_at, seq
  limit (select iif(exists (select 1 from allowed where alone), 1, :limit))
)`;

/**
 * Steps: of the messages that the last step with rows returned, those with a lost lease have had an attempt, and those that
 * have expired or lost their last attempt are dead.
 */
export const endLost = (n: QueueNames): readonly string[] => [
  recordLost(n),
  `update ${n.state} as s
set status = ${status.dead},
  attempt = ${moreAttempts("(s.locked_until is not null)")},
  crashes = ${moreCrashes("(s.locked_until is not null)")},
  owner = null,
  locked_until = null,
  last_attempt_at = coalesce(s.locked_until, s.last_attempt_at),
  last_error = iif(${hasExpired}, ${literal(reasons.expired)}, ${literal(reasons.leaseExpired)}),
  error_group = iif(${hasExpired}, ${literal(reasonGroup("expired"))}, ${literal(reasonGroup("leaseExpired"))}),
  died_at = ${now}
where s.seq in ${stepSeqs} and ${dies}`,
];

/** Of a message that `endLost` has changed. */
export const deathOf = `iif(${hasExpired}, 'expired', 'exhausted')`;

/** It changes no indexed column: the message keeps its place in the order. */
const leaseMessages = (n: QueueNames) => `update ${n.state} as s
set attempt = ${moreAttempts("(s.locked_until is not null)")},
  crashes = ${moreCrashes("(s.locked_until is not null)")},
  last_error = iif(s.locked_until is null, s.last_error, ${literal(reasons.leaseExpired)}),
  error_group = iif(s.locked_until is null, s.error_group, ${literal(reasonGroup("leaseExpired"))}),
  due_since = s.reclaimable_at,
  reclaimable_at = ${now} + ${lease} + ${backoff("s.attempt + (s.locked_until is not null) + 1")},
  locked_until = ${now} + ${lease},
  owner = :owner
where s.seq in ${stepSeqs} and s.status = ${status.ready}`;

/** Without the columns that a leased message does not have: the time to read a row grows with its columns. */
const claimedColumns = (n: QueueNames): readonly string[] => [
  ...[
    "m.seq",
    "m.topic",
    "m.type",
    "m.payload",
    "m.partition_key",
    "m.headers",
    "m.correlation_id",
    "m.due_at",
    "m.message_id",
  ],
  ...["s.attempt", "s.expires_at", "s.reclaimable_at as next_attempt_at", "s.locked_until", "s.last_error"],
  ...["s.last_attempt_at", "s.crashes"],
  ...(n.kind === "inbox"
    ? ["m.source", "m.hash", "m.first_seen_at", "m.last_seen_at", "m.deliveries"]
    : ["m.id", "m.created_at", "m.natural_key"]),
];

const claimedRows = (n: QueueNames) => `select ${claimedColumns(n).join(", ")},
  iif(s.status = ${status.dead}, ${deathOf}, null) as verdict
from json_each(:seqs) picked
cross join ${n.state} s on s.seq = picked.value
cross join ${n.message} m on m.seq = s.seq`;

/** One row when a control is the reason that there are no messages. */
const whyNone = (n: QueueNames) => `select null as seq, iif(paused, 'paused', 'limited') as verdict, wait_ms
from (select ${isPaused(n)} as paused, ${tokenWaitMs(n, isDue)} as wait_ms)
where paused or wait_ms is not null`;

export const claim = (n: QueueNames, blockOnDead: boolean) => [
  refillTokens(n),
  pick(n),
  ...endLost(n).map((text) => onlyIf("has_ended", text)),
  onlyIf("is_any", leaseMessages(n)),
  onlyIf("is_any", takeTokens(n)),
  ...removeDead(n, blockOnDead).map((text) => onlyIf("has_ended", text)),
  onlyIf("is_any", claimedRows(n)),
  onlyIf("is_none", whyNone(n)),
];

/** A row that `:owner` holds. Every statement that ends a lease empties the owner. */
const isOwned = "s.owner = :owner";

const isLastAttempt = `${field("attempts")} is null and s.attempt + 1 >= :max_attempts`;

export const ack = (n: QueueNames) => [
  `select json_group_array(s.seq) as seqs, count(*) = :count as all_changed
from ${n.state} s
where s.seq in ${sentSeqs} and ${isOwned}`,
  `insert into ${doneTable(n)} (seq, processed_at, attempt, processed_by, last_error)
select s.seq, ${now}, s.attempt, :processed_by, s.last_error
from ${n.state} s
where s.seq in ${stepSeqs}`,
  `delete from ${n.state} where seq in ${stepSeqs}`,
  leavePartitions(n),
];

export const abandon = (n: QueueNames, blockOnDead: boolean) => [
  `update ${n.state} as s
set status = iif(${isLastAttempt}, ${status.dead}, ${status.ready}),
  attempt = ${moreAttempts(`coalesce(${field("attempts")}, 1)`)},
  crashes = 0,
  owner = null,
  locked_until = null,
  reclaimable_at = null,
  visible_at = ${now} + coalesce(${whole(`round(${field("delay_ms")})`)}, ${backoff("s.attempt + 1")}),
  last_error = coalesce(${field("error")}, s.last_error),
  error_group = iif(${field("error")} is null, s.error_group, ${field("error_group")}),
  last_attempt_at = iif(${field("attempts")} = 0, s.last_attempt_at, ${now}),
  died_at = iif(${isLastAttempt}, ${now}, s.died_at)
from json_each(:items) i
where s.seq = ${field("seq")} and ${isOwned}
returning seq, status = ${status.dead} as dead`,
  recordAbandoned(n),
  ...removeDead(n, blockOnDead),
];

export const fail = (n: QueueNames, blockOnDead: boolean) => [
  `update ${n.state} as s
set status = ${status.dead}, attempt = ${moreAttempts("1")}, owner = null, locked_until = null, reclaimable_at = null,
  last_error = :error, error_group = :error_group, last_attempt_at = ${now}, died_at = ${now}
where s.seq in ${sentSeqs} and ${isOwned}
returning seq`,
  recordFailed(n),
  ...removeDead(n, blockOnDead),
];

/** The message keeps its place in the order, the time since when it was claimable and its count of crashes. */
export const release = (n: QueueNames) => `update ${n.state} as s
set owner = null, locked_until = null, reclaimable_at = s.due_since
where s.seq in ${sentSeqs} and ${isOwned}
returning seq`;

export const renew = (n: QueueNames) => `update ${n.state} as s
set locked_until = ${now} + ${lease}, reclaimable_at = ${now} + ${lease} + ${backoff("s.attempt + 1")}
where s.seq in ${sentSeqs} and ${isOwned}
returning seq`;

export const replay = (n: QueueNames) => [
  `update ${n.state} as s
set status = ${status.ready}, attempt = 0, crashes = 0, owner = null, locked_until = null, reclaimable_at = null,
  visible_at = ${now}, expires_at = ${now} + ${whole(":ttl_ms")}, died_at = null
where s.seq in ${sentSeqs} and s.status = ${status.dead}
returning seq`,
  ...joinPartitions(n),
];

/** The row numbers of messages that are named by their keys. */
export const resolve = (n: QueueNames) => `select m.seq, ${keysOf(n)}
from json_each(:items) i
join ${n.message} m on ${
  n.kind === "inbox"
    ? "m.source = json_extract(i.value, '$.source') and m.message_id = json_extract(i.value, '$.message_id')"
    : "m.id = json_extract(i.value, '$.id')"
}`;
