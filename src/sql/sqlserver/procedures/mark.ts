import { status } from "../../dialect.js";
import type { QueueNames } from "../../names.js";
import { asBit, asInt, differs, endOfTime } from "../expressions.js";
import { leavePartition } from "../partitions.js";
import { findOrInsert, isKeyOf, keyIndex } from "./find-by-key.js";
import { atOwnLevel, indented, lockRow, lockTarget, seekEach } from "./procedure.js";

/** Finds the message that @source and @message_id name, and locks it and then its state. Inserts it when it is unknown. */
const findKey = (n: QueueNames, hash: string, more = "") =>
  findOrInsert(
    `select @seq = m.seq, @old_status = s.status${more}
from ${n.message} m with (${keyIndex(n)}, ${lockRow})
inner join ${n.state} s with (${lockRow}) on s.seq = m.seq
where ${isKeyOf(n)} ${seekEach};`,
    `if @seq is null
${indented(insertKey(n, hash))}`,
  );

/** Inserts a message of which only the key is known. */
const insertKey = (
  n: QueueNames,
  hash: string,
) => `insert into ${n.message} (source, message_id, topic, payload, hash,
  first_seen_at, last_seen_at, deliveries, content_changed)
output inserted.seq into @added (seq)
values (@source, @message_id, N'', N'', ${hash}, @now, @now, 1, 0);`;

export const alreadyProcessed = (
  n: QueueNames,
) => `declare @seq bigint, @old_status tinyint, @content_changed bit = 0;
declare @added table (seq bigint not null primary key);

${atOwnLevel(`${findKey(n, "@hash", `, @content_changed = ${asInt(differs("m.hash", "@hash"))}`)}

if @seq is not null
  update ${n.message} with (${lockTarget})
  set hash = case when @old_status = ${status.done} then coalesce(hash, @hash) else coalesce(@hash, hash) end,
    last_seen_at = @now, deliveries = deliveries + 1, content_changed = @content_changed
  where seq = @seq;
else
  insert into ${n.state} (seq, status, visible_at)
  select a.seq, ${status.seen}, @now from @added a;`)}

select ${asBit(`@old_status = ${status.done}`)} as processed, @content_changed as content_changed;`;

// Marks a message by hand, whether it is leased or not: Processing only from Seen, Dead never from Done. A message that was
// marked Processing by hand is never claimed (its visible_at is the end of time): the code that marked it also finishes it.
export const mark = (n: QueueNames) => `declare @seq bigint, @old_status tinyint, @keyed bit;
declare @never datetime2(3) = ${endOfTime};
declare @processed_at datetime2(3) = case when @status = ${status.done} then @now end;
declare @died_at datetime2(3) = case when @status = ${status.dead} then @now end;
declare @added table (seq bigint not null primary key);
declare @changed table (seq bigint not null primary key);

${atOwnLevel(`${findKey(n, "null", ", @keyed = s.keyed")}

if @seq is not null
begin
  update ${n.message} with (${lockTarget}) set last_seen_at = @now where seq = @seq;

  update ${n.state} with (${lockTarget})
  set status = @status, owner = null, locked_until = null, visible_at = @never, processed_at = @processed_at,
    last_error = coalesce(@error, last_error), error_group = case when @error is null then error_group else @error_group end,
    died_at = coalesce(@died_at, died_at)
  output inserted.seq into @changed (seq)
  where seq = @seq
    and ((@status = ${status.held} and status = ${status.seen}) or (@status <> ${status.held} and status <> ${status.done}));
end
else
  insert into ${n.state} (seq, status, visible_at, processed_at, died_at, last_error, error_group)
  output inserted.seq into @changed (seq)
  select a.seq, @status, @never, @processed_at, @died_at, @error, @error_group from @added a;

${leavePartition(n, "@changed", `@keyed = 1 and (@status = ${status.done} or (@status = ${status.dead} and @blocks = 0))`)}`)}

select c.seq from @changed c;`;
