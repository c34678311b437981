import { status } from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { isPaused, mayFree } from "./controls.js";
import { unclaimed } from "./expressions.js";
import { databaseClock } from "./steps.js";

/** A claim would find something: an unclaimed message, a ready one, or one whose lease was lost; or it may free one. */
const anyDue = (n: QueueNames) => `not ${isPaused(n)} and (
  exists (select 1 ${unclaimed(n)})
  or exists (select 1 from ${n.state} where status = ${status.ready} and visible_at <= ${databaseClock})
  or exists (select 1 from ${n.state} where status = ${status.held} and visible_at <= ${databaseClock})
  or ${mayFree(n)}
)`;

export const pollStatement = (inbox: QueueNames, outbox: QueueNames): SqlStatement =>
  statement(
    "poll",
    `select 'inbox' as queue where ${anyDue(inbox)}\nunion all\nselect 'outbox' where ${anyDue(outbox)}`,
  );
