import { status } from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { databaseClock } from "./client.js";
import { cursorTable, leaseTable } from "./names.js";
import { isFresh } from "./schema.js";

/** What a claim would find: fresh messages behind the cursor, ready ones, and lost ones. */
const anyDue = (n: QueueNames) => `(
  exists (
    select 1 from ${n.message} m
    where m.seq > (select seq from ${cursorTable(n)}) and ${isFresh(n, "m.seq")}
  )
  or exists (select 1 from ${n.state} where status = ${status.ready} and visible_at <= ${databaseClock})
  or exists (select 1 from ${n.state} where status = ${status.held} and visible_at <= ${databaseClock})
  or exists (select 1 from ${leaseTable(n)} where visible_at <= ${databaseClock})
)`;

export const due = (inbox: QueueNames, outbox: QueueNames): SqlStatement =>
  statement(
    "due",
    `select 'inbox' as queue where ${anyDue(inbox)}\nunion all\nselect 'outbox' where ${anyDue(outbox)}`,
  );
