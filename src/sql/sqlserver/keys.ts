import { type KeyStatements, status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { addMs, asBit, asInt, binary } from "./expressions.js";
import {
  atomically,
  indented,
  isFreeKey,
  keyIndex,
  lockRow,
  lockTarget,
  type Procedure,
  procedure,
  readPast,
  seekEach,
  skipLocked,
  stateTable,
} from "./procedure.js";
import { callProcedure, type ParameterName, signatures } from "./procedure-calls.js";

export function keyStatements(n: QueueNames): KeyStatements {
  const given_now = "@now";
  const changeKey = (change: string, parameters: readonly ParameterName[]) =>
    callProcedure(n, `${change} key`, "ChangeKey", parameters, { given_now, change: `'${change}'` });
  const finished = signatures.ChangeKey.filter((one) => one !== "lease_ms");
  return {
    tryBegin: callProcedure(n, "try begin", "TryBegin", signatures.TryBegin, { given_now }),
    renewKey: changeKey("renew", signatures.ChangeKey),
    finishKey: changeKey("finish", finished),
    releaseKey: changeKey("release", finished),
    inspectKey: callProcedure(n, "inspect key", "InspectKey", signatures.InspectKey),
    purgeKeys: callProcedure(n, "purge keys", "PurgeKeys", signatures.PurgeKeys),
  };
}

export function keyProcedures(n: QueueNames): readonly Procedure[] {
  return [
    procedure(n, "TryBegin", signatures.TryBegin, tryBegin(n)),
    procedure(n, "ChangeKey", signatures.ChangeKey, changeKey(n), ["lease_ms"]),
    procedure(n, "InspectKey", signatures.InspectKey, inspectKey(n)),
    procedure(n, "PurgeKeys", signatures.PurgeKeys, purgeKeys(n)),
  ];
}

/** A call that waited for a lock decides by the time at which it got it. */
const readClock = "set @now = coalesce(@given_now, sysutcdatetime());";

const isKey = "m.source = @source and m.message_id = @message_id";

/**
 * Locks the key and then its state. An insert of the same key by another call makes this one wait, and fail with a duplicate
 * key when the other commits; the next round finds the key. In a transaction of its own, XACT_ABORT has ended that, and the
 * round begins anew: with XACT_ABORT off, a request that is cancelled there would leave its transaction open. A caller's
 * transaction must live on, and its owner ends it, so there XACT_ABORT is off for the insert.
 */
const tryBegin = (
  n: QueueNames,
) => `declare @now datetime2(3), @seq bigint, @first_seen_at datetime2(3), @status tinyint, @holder uniqueidentifier, @locked_until datetime2(3);
declare @outermost bit = ${asInt("@@trancount = 0")};
declare @rounds int = 0;
declare @added table (seq bigint not null primary key);

while @seq is null
begin
  if @outermost = 1 and @@trancount = 0 begin transaction;

  -- a column that is not in the index: the lookup locks the row, too
  select @seq = m.seq, @first_seen_at = m.first_seen_at
  from ${n.message} m with (${keyIndex(n)}, ${lockRow})
  where ${isKey};

  if @seq is null
  begin
    ${readClock}

    begin try
      if @outermost = 0 set xact_abort off;

      insert into ${n.message} (source, message_id, topic, payload, headers, first_seen_at, last_seen_at, deliveries, content_changed)
      output inserted.seq into @added (seq)
      values (@source, @message_id, N'', N'', @headers, @now, @now, 1, 0);
    end try
    begin catch
      set @rounds = @rounds + 1;
      if @rounds = 10 or error_number() not in (2601, 2627)
      begin; throw; end;
      if @outermost = 1 and @@trancount > 0 rollback transaction;
    end catch;

    set xact_abort on;

    select @seq = a.seq from @added a;
  end
end

${readClock}

if @first_seen_at is null
begin
  set @status = ${status.leased};
  set @holder = @owner;
  set @locked_until = ${addMs(n, "@now", "@lease_ms")};

  insert into ${n.state} (seq, status, visible_at, locked_until, owner, attempt)
  values (@seq, ${status.leased}, @now, @locked_until, @owner, 1);
end
else
begin
${indented(takeKnown(n))}
end

if @outermost = 1 commit transaction;

select @status as status, ${asBit(`@status = ${status.leased} and @holder = @owner`)} as mine, @locked_until as locked_until;`;

/** The condition stands in the update, where the row is locked for certain: Babelfish accepts UPDLOCK and ignores it. */
const takeKnown = (n: QueueNames) => `declare @takes bit = 0;

select @status = s.status from ${n.state} s with (${lockRow}) where s.seq = @seq;

${readClock}

update ${n.state} with (${lockTarget})
set status = ${status.leased}, visible_at = @now, locked_until = ${addMs(n, "@now", "@lease_ms")}, owner = @owner, attempt = attempt + 1
where seq = @seq and (status = ${status.seen} or ${isFreeKey(stateTable(n))});

if @@rowcount = 1 set @takes = 1;

select @status = s.status, @holder = s.owner, @locked_until = s.locked_until from ${n.state} s with (forceseek) where s.seq = @seq;

update ${n.message} with (${lockTarget})
set last_seen_at = @now, headers = case when @takes = 1 then @headers else headers end
where seq = @seq;`;

const leaseId = "lower(convert(nvarchar(36), @owner))";

/**
 * Renews, finishes or releases the key while @owner holds it. Only the state is locked: what the lease decides is all there. To
 * finish again what @owner has finished writes the same values again.
 */
function changeKey(n: QueueNames): string {
  const s = stateTable(n);
  const only = (change: string, value: string, column: string) =>
    `${column} = case when @change = '${change}' then ${value} else ${column} end`;
  return `declare @now datetime2(3), @seq bigint;
declare @changed table (seq bigint not null primary key, locked_until datetime2(3) null);

select @seq = m.seq
from ${n.message} m with (${keyIndex(n)}, forceseek, rowlock, readcommittedlock)
where ${isKey};

${atomically(`select @seq = s.seq from ${n.state} s with (${lockRow}) where s.seq = @seq;

${readClock}

update ${n.state} with (${lockTarget})
set owner = case when @change = 'renew' then owner end,
  locked_until = case when @change = 'renew' then ${addMs(n, "@now", "@lease_ms")} end,
  ${only("release", "@now", "visible_at")},
  ${only("finish", String(status.done), "status")},
  ${only("finish", "coalesce(processed_at, @now)", "processed_at")},
  ${only("finish", leaseId, "processed_by")}
output inserted.seq, inserted.locked_until into @changed (seq, locked_until)
where seq = @seq and ((${s}.status = ${status.leased} and ${s}.owner = @owner and ${s}.locked_until > @now)
  or (@change = 'finish' and ${s}.status = ${status.done} and ${s}.processed_by = ${leaseId}));`)}

select c.locked_until from @changed c;`;
}

const inspectKey = (
  n: QueueNames,
) => `select s.status, ${asBit("s.locked_until > @now")} as live, s.attempt, m.first_seen_at, m.last_seen_at,
  s.locked_until, m.headers
from ${n.message} m with (${keyIndex(n)}, forceseek)
inner join ${n.state} s with (forceseek) on s.seq = m.seq
where ${isKey} ${seekEach};`;

/**
 * The keys are picked without waiting. Then each is locked before its state, as a try begin locks them, and both are tested
 * once more.
 */
function purgeKeys(n: QueueNames): string {
  const m = n.bare("");
  const abandoned = (s: string) => `${s}.status = ${status.leased} and ${s}.visible_at < @before
    and (${s}.locked_until is null or ${s}.locked_until < @before)`;
  return `declare @before datetime2(3) = ${addMs(n, "@now", "-@retention_ms")};
declare @old table (seq bigint not null primary key, message_id nvarchar(255) ${binary} not null);
declare @locked table (seq bigint not null primary key);
declare @gone table (seq bigint not null primary key);

insert into @old (seq, message_id)
select top (@limit) r.seq, m.message_id
from ${n.state} r with (index(${n.bare("_Leased")}), ${readPast})
inner join ${n.message} m with (index(${n.bare("_PK")}), forceseek, ${readPast}) on m.seq = r.seq
where ${abandoned("r")}
  and m.source = @source and m.last_seen_at < @before
order by r.visible_at, r.seq ${seekEach};

${atomically(`insert into @locked (seq)
select m.seq
from @old o
inner join ${n.message} m with (${keyIndex(n)}, forceseek, ${skipLocked}) on m.source = @source and m.message_id = o.message_id
where m.seq = o.seq and m.last_seen_at < @before ${seekEach};

delete from ${n.state}
output deleted.seq into @gone (seq)
from @locked l, ${n.state} with (${lockRow})
where ${stateTable(n)}.seq = l.seq and ${abandoned(stateTable(n))} ${seekEach};

delete from ${n.message}
from @gone g, ${n.message} with (${lockRow})
where ${m}.seq = g.seq ${seekEach};`)}

select count(*) as deleted from @gone g;`;
}
