import { status } from "../dialect.js";
import type { SqlStatement } from "../driver.js";
import { literal } from "../literal.js";
import type { QueueNames } from "../names.js";
import { beforeThat, reasonGroup, reasons } from "../reasons.js";
import { dies, hasLease } from "./claim-statement.js";
import { hasExpiry, keysOf, lease, limit, now, stepSeqs } from "./expressions.js";
import { leaveAllDead } from "./partitions.js";
import { steps } from "./steps.js";

/** visible_at already holds the end of the lease and the back-off after it: reaper and claim come to the same time. */
export const reap = (n: QueueNames, blockOnDead: boolean): SqlStatement =>
  steps(
    "reap",
    `update ${n.state} as s
set status = case when ${dies} then ${status.dead} else ${status.held} end,
  attempt = s.attempt + (${hasLease}),
  crashes = s.crashes + (${hasLease}),
  owner = null,
  locked_until = null,
  last_error = case when s.expires_at <= ${now} then ${literal(reasons.expired)} else ${literal(reasons.leaseExpired)} end,
  error_group = case when s.expires_at <= ${now} then ${literal(reasonGroup("expired"))} else ${literal(reasonGroup("leaseExpired"))} end,
  last_attempt_at = coalesce(s.locked_until, s.last_attempt_at),
  died_at = case when ${dies} then ${now} else s.died_at end,
  passes = null
where s.seq in (
  select seq from (
    select seq from ${n.state} where status = ${status.held} and locked_until < ${now} limit ${limit}
  )
  union all
  select seq from (
    select seq from ${n.state}
    where expires_at <= ${now} and ${hasExpiry} and status <> ${status.dead} and locked_until is null
    limit ${limit}
  )
  limit ${limit}
)
returning seq`,
    ...(blockOnDead ? [] : [leaveAllDead(n)]),
    `select s.seq, ${keysOf(n)},
  case when s.status <> ${status.dead} then 'reaped' when s.expires_at <= ${now} then 'expired' else 'exhausted' end as verdict
from ${n.state} s
join ${n.message} m on m.seq = s.seq
where s.seq in ${stepSeqs}`,
  );

const saysNothing = `instr(coalesce(s.last_error, ''), ${literal(reasons.expired)}) = 0`;

export const expireDead = (n: QueueNames): SqlStatement =>
  steps(
    "expire dead",
    `update ${n.state} as s
set owner = :owner,
  locked_until = ${now} + ${lease},
  last_error = case
    when ${saysNothing} then ${literal(reasons.expired)} || coalesce(${literal(beforeThat)} || s.last_error, '')
    else s.last_error
  end
where s.seq in (
  select seq from ${n.state} s
  where expires_at <= ${now} and ${hasExpiry} and status = ${status.dead}
    and case when locked_until is null then ${saysNothing} else locked_until <= ${now} end
  limit ${limit}
)
returning seq`,
    `select m.seq, ${keysOf(n)} from ${n.message} m where m.seq in ${stepSeqs}`,
  );
