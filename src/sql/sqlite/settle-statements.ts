import { type QueueStatements, status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { recordAbandoned, recordFailed } from "./attempts.js";
import { backoff, dueSince, lease, now, sentSeqs, whole } from "./expressions.js";
import { leave, rejoin, removeDead } from "./partitions.js";
import { steps } from "./steps.js";

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
