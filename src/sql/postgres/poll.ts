import { status } from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import type { QueueNames } from "../names.js";

/** What a claim would find. */
const anyDue = (n: QueueNames) => `(
  select '${n.kind}' as queue
  from ${n.state}
  where status = ${status.ready} and visible_at <= statement_timestamp()
    and (lost_at is null or lost_at <= statement_timestamp())
  limit 1
)`;

/** No rows in the usual case: two columns that say no take a tenth longer than none. */
export const due = (inbox: QueueNames, outbox: QueueNames): SqlStatement =>
  statement("due", `${anyDue(inbox)}\nunion all\n${anyDue(outbox)}`);
