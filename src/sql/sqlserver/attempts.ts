import { keptAttempts } from "../defaults.js";
import type { QueueNames } from "../names.js";
import { reasons } from "../reasons.js";
import { asInt, unicodeLiteral } from "./expressions.js";
import {
  indented,
  isLost,
  isWhole,
  lockRow,
  pickFrom,
  seekEach,
  stateTable,
} from "./procedures/procedure.js";

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
from ${changed} c, ${attemptsTable(n)} with (${lockRow})
where ${n.bare("Attempts")}.seq = c.seq and ${n.bare("Attempts")}.number <= (
  select x.number from ${attemptsTable(n)} x with (forceseek, readcommittedlock) where x.seq = c.seq
  order by x.number desc offset ${keptAttempts} rows fetch next 1 row only
) ${seekEach};`;

/** The rows that a claim or the reaper chose and locked, with the leases that it ends. `lost`: a worker had it. */
export const pickedTable = `declare @picked table (
  seq bigint not null, status tinyint not null, locked_until datetime2(3) null, owner uniqueidentifier null,
  lost tinyint not null, dies tinyint not null, primary key (seq, status)
);`;

/** What a claim or the reaper has done to the rows that it picked. */
export const changedTable = (name: string): string => `declare ${name} table (
  seq bigint not null primary key, status tinyint not null, expires_at datetime2(3) null, attempt int not null, keyed bit null
);`;

export const outputChanged = (
  into: string,
): string => `output inserted.seq, inserted.status, inserted.expires_at, inserted.attempt, inserted.keyed
  into ${into} (seq, status, expires_at, attempt, keyed)`;

/** Picks rows `r`, `top` at most. A claimable row with a lease was lost by its worker. That counts as an attempt, perhaps the last. */
export const pick = (
  n: QueueNames,
  { top, index, where, order }: Readonly<Record<"top" | "index" | "where" | "order", string>>,
): string => `insert into @picked (seq, status, locked_until, owner, lost, dies)
select top (${top}) r.seq, r.status, r.locked_until, r.owner, ${asInt(isLost("r"))},
  ${asInt(`r.expires_at <= @now or (${isLost("r")} and r.attempt + 1 >= @max_attempts)`)}
from ${pickFrom(n, index)}
where ${where} and ${isWhole("r")}
order by ${order};`;

/** Records the attempts whose leases a claim or the reaper has ended: rows of @picked that are among the changed ones. */
export const recordLost = (
  n: QueueNames,
  changed: string,
): string => `if exists (select 1 from @picked p where p.lost = 1)
begin
${indented(
  recordAttempts(
    n,
    `select c.seq, c.attempt, p.locked_until, p.owner,
  ${unicodeLiteral(reasons.leaseExpired)}
from @picked p inner join ${changed} c on c.seq = p.seq
where p.lost = 1`,
    changed,
  ),
)}
end`;

/** Deletes the state rows and the attempts of the messages in a table with `seq`. */
export const deleteStates = (n: QueueNames, gone: string): string => `delete from ${n.state}
from ${gone} g, ${n.state} with (${lockRow})
where ${stateTable(n)}.seq = g.seq ${seekEach};

${deleteAttempts(n, gone)}`;

/** Deletes the attempts of the messages in a table with `seq`. */
export const deleteAttempts = (n: QueueNames, gone: string): string => `delete from ${attemptsTable(n)}
from ${gone} g, ${attemptsTable(n)} with (${lockRow})
where ${n.bare("Attempts")}.seq = g.seq ${seekEach};`;
