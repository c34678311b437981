import { keptAttempts } from "../defaults.js";
import type { QueueNames } from "../names.js";
import { reasons } from "../reasons.js";
import { unicodeLiteral } from "./expressions.js";
import { indented, seekEach } from "./procedures/procedure.js";

/** The failed attempts of messages. An ack writes nothing here. Only a caller that has locked a message's state writes its rows. */
export const attemptsTable = (n: QueueNames): string => n.object("Attempts");

export const attemptRows = (n: QueueNames): string => `create table ${attemptsTable(n)} (
  seq bigint not null,
  number bigint identity(1, 1) not null,
  attempt int not null,
  ended_at datetime2(3) not null,
  worker uniqueidentifier null,
  error nvarchar(max) null,
  constraint ${n.bare("Attempts_PK")} primary key clustered (seq, number)
)`;

/** Inserts the rows of a query, and deletes older attempts of the messages in `@changed` or another table with `seq`. */
export const recordAttempts = (
  n: QueueNames,
  query: string,
  changed: string,
): string => `insert into ${attemptsTable(n)} (seq, attempt, ended_at, worker, error)
${query};

delete from ${attemptsTable(n)}
from ${changed} c, ${attemptsTable(n)} with (rowlock)
where ${n.bare("Attempts")}.seq = c.seq and ${n.bare("Attempts")}.number < (
  select min(k.number)
  from (select top (${keptAttempts}) x.number from ${attemptsTable(n)} x where x.seq = c.seq order by x.number desc) k
)
${seekEach};`;

/**
 * The lease of a row that is picked, for the OUTPUT of the update after it: Babelfish refuses `deleted` there. Both are read
 * under the lock of the pick.
 */
export const lostLease = (r: string): string => `${r}.locked_until as lost_at, ${r}.owner as lost_by`;
/** The same of rows that never have a lease. */
export const noLease = "cast(null as datetime2(3)) as lost_at, cast(null as uniqueidentifier) as lost_by";

/** Records the attempts that ended with their leases: the rows of a table that have `lost_at`. Where there are none, it costs one test. */
export const recordLost = (
  n: QueueNames,
  changed: string,
): string => `if exists (select 1 from ${changed} c where c.lost_at is not null)
begin
${indented(
  recordAttempts(
    n,
    `select c.seq, c.attempt, c.lost_at, c.lost_by, ${unicodeLiteral(reasons.leaseExpired)}
from ${changed} c
where c.lost_at is not null`,
    changed,
  ),
)}
end`;

/** Deletes the attempts of the messages in a table with `seq`. */
export const deleteAttempts = (n: QueueNames, gone: string): string => `delete from ${attemptsTable(n)}
from ${gone} g, ${attemptsTable(n)} with (rowlock)
where ${n.bare("Attempts")}.seq = g.seq
${seekEach};`;
