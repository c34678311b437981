import { status } from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import type { QueueNames } from "../names.js";

/** What a claim would find. */
const anyDue = (n: QueueNames) => `exists (
  select 1 from ${n.state} s
  where s.status = ${status.ready} and s.visible_at <= statement_timestamp()
    and (s.lost_at is null or s.lost_at <= statement_timestamp())
)`;

export const due = (inbox: QueueNames, outbox: QueueNames): SqlStatement =>
  statement("due", `select ${anyDue(inbox)} as inbox, ${anyDue(outbox)} as outbox`);
