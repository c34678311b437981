import { status } from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { isPaused, mayFree } from "./controls.js";

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
