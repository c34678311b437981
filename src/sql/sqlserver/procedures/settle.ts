import { status } from "../../dialect.js";
import type { QueueNames } from "../../names.js";
import { recordAttempts } from "../attempts.js";
import { addMs, asBit, backoffSql, binary, prepareBackoff } from "../expressions.js";
import { joinPartition, leavePartition } from "../partitions.js";
import { atomically, lockRow, owned, seekEach, seqs, stateTable } from "./procedure.js";

/** Updates the rows that @items numbers and returns the numbers of those that it changed. `after` runs in the same transaction. */
export function settle(n: QueueNames, set: string, condition: string, after?: string): string {
  const update = `update ${n.state}
set ${set}
output inserted.seq, inserted.keyed, inserted.attempt into @changed (seq, keyed, attempt)
from ${seqs}, ${n.state} with (${lockRow})
where ${stateTable(n)}.seq = i.seq and ${condition} ${seekEach};`;
  return `declare @changed table (seq bigint not null primary key, keyed bit null, attempt int not null);

${after === undefined ? update : atomically(`${update}\n\n${after}`)}

select c.seq from @changed c;`;
}

/** With @max_attempts 0 the message has no attempt left: it fails, keeps no earlier error, and its crashes stay counted. */
export function abandon(n: QueueNames): string {
  const s = stateTable(n);
  return `${prepareBackoff}
declare @changed table (seq bigint not null primary key, status tinyint not null, keyed bit null, attempt int not null);

${atomically(`update ${n.state}
set status = case when i.attempts is null and ${s}.attempt + 1 >= @max_attempts then ${status.dead} else ${status.ready} end,
  attempt = ${s}.attempt + coalesce(i.attempts, 1), crashes = case when @max_attempts > 0 then 0 else ${s}.crashes end,
  owner = null, locked_until = null,
  visible_at = ${addMs(n, "@now", `coalesce(i.delay_ms,\n    ${backoffSql(`(${s}.attempt + 1)`, `${s}.seq`)})`)},
  last_error = case when i.error is null and @max_attempts > 0 then ${s}.last_error else i.error ${binary} end,
  error_group = case when i.error is null and @max_attempts > 0 then ${s}.error_group else i.error_group ${binary} end,
  last_attempt_at = case when i.attempts = 0 then ${s}.last_attempt_at else @now end,
  died_at = case when i.attempts is null and ${s}.attempt + 1 >= @max_attempts then @now else ${s}.died_at end
output inserted.seq, inserted.status, inserted.keyed, inserted.attempt into @changed (seq, status, keyed, attempt)
from openjson(@items) with (seq bigint, delay_ms float, error nvarchar(max), error_group varchar(16), attempts int) i, ${n.state} with (${lockRow})
where ${s}.seq = i.seq and ${owned(s)} ${seekEach};

${recordAttempts(
  n,
  `select c.seq, c.attempt, @now, @owner, i.error
from openjson(@items) with (seq bigint, error nvarchar(max), attempts int) i
inner join @changed c on c.seq = i.seq
where i.attempts is null ${seekEach}`,
  "@changed",
)}

${leavePartition(n, "@changed", `@blocks = 0 and c.keyed = 1 and c.status = ${status.dead}`)}`)}

select c.seq, ${asBit(`c.status = ${status.dead}`)} as dead from @changed c;`;
}

/** Abandons the messages that @items numbers, with no attempt left. The back-off is of no matter. */
export const fail = (n: QueueNames): string => `declare @failed nvarchar(max) = (
  select i.seq, 0 as delay_ms, @error as error, @error_group as error_group
  from ${seqs}
  for json path
);

exec ${n.object("_Abandon")} @now = @now, @owner = @owner, @items = @failed, @max_attempts = 0, @base_ms = 1, @factor = 1,
  @max_ms = 1, @jitter_ms = 0, @blocks = @blocks;`;

/** Messages that ended are handled again, as if they were new: dead ones, or done ones that are to be sent again. */
export function replay(n: QueueNames, from: number): string {
  const s = stateTable(n);
  return settle(
    n,
    `status = case when ${s}.keyed = 1 then ${status.blocked} else ${status.ready} end,
  attempt = 0, crashes = 0, owner = null, locked_until = null, visible_at = @now,
  expires_at = ${addMs(n, "@now", "@ttl_ms")}, processed_at = null, processed_by = null, died_at = null`,
    `${s}.status = ${from}`,
    joinPartition(n, "@changed", "c.keyed = 1"),
  );
}
