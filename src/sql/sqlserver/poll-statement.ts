import { type SqlStatement, statement } from "../driver.js";
import type { QueueNames } from "../names.js";

/** Calls the procedures of both queues in one round trip. Returns no rows in the usual case. */
export const pollStatement = (inbox: QueueNames, outbox: QueueNames): SqlStatement =>
  statement(
    "poll",
    `set nocount on;
declare @inbox int, @outbox int;
exec @inbox = ${inbox.object("_Due")};
exec @outbox = ${outbox.object("_Due")};
select 'inbox' as queue where @inbox = 1
union all
select 'outbox' as queue where @outbox = 1;`,
  );
