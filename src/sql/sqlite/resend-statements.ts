import { type OutboxStatements, status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { limit, now, sentSeqs, whole } from "./expressions.js";
import { rejoin } from "./partitions.js";
import { steps } from "./steps.js";

/** The statements of an outbox that send messages again, or earlier. */
export const resendStatements = (
  n: QueueNames,
): Pick<OutboxStatements, "listDone" | "resend" | "makeDue"> => ({
  listDone: steps(
    "list done",
    `select s.seq, m.id, m.topic, s.processed_at
from ${n.state} s
cross join ${n.message} m on m.seq = s.seq
where s.seq > :after_seq and s.status = ${status.done}
order by s.seq
limit ${limit}`,
  ),
  resend: steps(
    "resend",
    `update ${n.state} as s
set status = ${status.ready}, attempt = 0, crashes = 0, owner = null, locked_until = null, visible_at = ${now},
  expires_at = ${now} + ${whole(":ttl_ms")}, processed_at = null, processed_by = null
where s.seq in ${sentSeqs} and s.status = ${status.done}
returning seq`,
    ...rejoin(n),
  ),
  makeDue: steps(
    "make due",
    `update ${n.state} as s
set visible_at = ${now}
where s.seq in (
  select seq from ${n.state}
  where status = ${status.ready} and visible_at > ${now} and last_error = :error
  limit ${limit}
)
returning seq`,
  ),
});
