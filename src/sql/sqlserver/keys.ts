import type { KeyStatements } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { addMs, asBit, binary, keysTable } from "./expressions.js";
import {
  atomically,
  beginUnlessOpen,
  findOrInsert,
  lockRow,
  lockTarget,
  type Procedure,
  procedure,
  readPast,
  rowByRow,
  seizeFree,
} from "./procedure.js";
import { callProcedure, parametersOf } from "./procedure-calls.js";

/** Clustered on a narrow number, as messages are. The index is for the purge. */
export const createKeys = (n: QueueNames): readonly string[] => [
  `create table ${keysTable(n)} (
  seq bigint identity(1, 1) not null,
  source nvarchar(255) ${binary} not null,
  [key] nvarchar(255) ${binary} not null,
  -- null when the key was released or is processed
  lease_id uniqueidentifier null,
  -- the end of the last lease
  locked_until datetime2(3) null,
  attempt int not null constraint ${n.bare("Keys_Attempt")} default 0,
  -- the holder's name
  owner nvarchar(100) null,
  first_seen_at datetime2(3) not null,
  last_seen_at datetime2(3) not null,
  processed_at datetime2(3) null,
  -- the lease that has finished it
  processed_by uniqueidentifier null,
  constraint ${n.bare("Keys_PK")} primary key clustered (seq),
  constraint ${n.bare("Keys_Key")} unique nonclustered (source, [key])
)`,
  `create index ${n.bare("Keys_FirstSeen")} on ${keysTable(n)} (source, first_seen_at, seq)`,
  `alter table ${keysTable(n)} set (lock_escalation = disable)`,
];

export function keyStatements(n: QueueNames): KeyStatements {
  const withLease = parametersOf(n, "ChangeKey");
  const withoutLease = withLease.filter((one) => one !== "lease_ms");
  const changeKey = (change: string, parameters: typeof withLease) =>
    callProcedure(n, `${change} key`, "ChangeKey", { change: `'${change}'` }, parameters);
  return {
    tryBegin: callProcedure(n, "try begin", "TryBegin", { holder: "@owner" }),
    renewKey: changeKey("renew", withLease),
    finishKey: changeKey("finish", withoutLease),
    releaseKey: changeKey("release", withoutLease),
    markKey: callProcedure(n, "mark key", "MarkKey"),
    inspectKey: callProcedure(n, "inspect key", "InspectKey"),
    purgeKeys: callProcedure(n, "purge keys", "PurgeKeys"),
  };
}

export const keyProcedures = (n: QueueNames): readonly Procedure[] => [
  procedure(n, "TryBegin", tryBegin(n)),
  procedure(n, "ChangeKey", changeKey(n), ["lease_ms"]),
  procedure(n, "MarkKey", markKey(n)),
  procedure(n, "InspectKey", inspectKey(n)),
  procedure(n, "PurgeKeys", purgeKeys(n)),
];

/** A call that waited for a lock decides by the time at which it got it. */
const readClockAgain = "set @now = sysutcdatetime();";

/** Named, because the index of the purge begins with the source, too, and calls that enter by it would lock in another order. */
const keyIndex = (n: QueueNames) => `index(${n.bare("Keys_Key")})`;
const isKey = "k.source = @source and k.[key] = @key";

/** Every call finds its row by the key, so the entry of that index is the one lock that they wait for. */
const lockKey = (n: QueueNames) => `select @seq = k.seq
from ${keysTable(n)} k with (${keyIndex(n)}, ${lockRow})
where ${isKey};`;

/** The key is inserted as an available one. */
const findKey = (n: QueueNames) => `${findOrInsert(
  lockKey(n),
  `if @seq is null
  insert into ${keysTable(n)} (source, [key], first_seen_at, last_seen_at)
  output inserted.seq into @added (seq)
  values (@source, @key, @now, @now);`,
)}

if @seq is null select @seq = a.seq from @added a;`;

const isAvailable = "processed_at is null and (locked_until is null or locked_until <= @now)";
const ifAvailable = (column: string, value: string) =>
  `${column} = case when ${isAvailable} then ${value} else ${column} end`;

/** The condition stands in the update, where the row is locked for certain: Babelfish accepts UPDLOCK and ignores it. */
const tryBegin = (n: QueueNames) => `declare @now datetime2(3) = sysutcdatetime(), @seq bigint;
declare @added table (seq bigint not null primary key);

${beginUnlessOpen(`${findKey(n)}

${readClockAgain}

update ${keysTable(n)} with (${lockTarget})
set ${ifAvailable("lease_id", "@lease_id")},
  ${ifAvailable("locked_until", addMs(n, "@now", "@lease_ms"))},
  ${ifAvailable("attempt", "attempt + 1")},
  ${ifAvailable("owner", "@holder")},
  last_seen_at = @now
where seq = @seq;

select ${asBit("k.processed_at is not null")} as processed,
  ${asBit("k.processed_at is null and k.lease_id = @lease_id")} as mine, k.locked_until
from ${keysTable(n)} k with (forceseek)
where k.seq = @seq;`)}`;

/** Renews, finishes or releases the key while @lease_id holds it. To finish again what it has finished changes nothing. */
const changeKey = (n: QueueNames) => `declare @now datetime2(3), @seq bigint;
declare @changed table (locked_until datetime2(3) null);

${atomically(`${lockKey(n)}

${readClockAgain}

update ${keysTable(n)} with (${lockTarget})
set lease_id = case when @change = 'renew' then lease_id end,
  locked_until = case @change when 'renew' then ${addMs(n, "@now", "@lease_ms")} when 'release' then @now end,
  processed_at = case when @change = 'finish' then coalesce(processed_at, @now) end,
  processed_by = case when @change = 'finish' then @lease_id end
output inserted.locked_until into @changed (locked_until)
where seq = @seq and ((processed_at is null and lease_id = @lease_id and locked_until > @now)
  or (@change = 'finish' and processed_by = @lease_id));`)}

select c.locked_until from @changed c;`;

const markKey = (n: QueueNames) => `declare @seq bigint;
declare @added table (seq bigint not null primary key);

${beginUnlessOpen(`${findKey(n)}

update ${keysTable(n)} with (${lockTarget})
set last_seen_at = @now, processed_at = coalesce(processed_at, @now), lease_id = null, locked_until = null
where seq = @seq;`)}`;

const inspectKey = (n: QueueNames) => `select ${asBit("k.processed_at is not null")} as processed,
  ${asBit("k.locked_until > @now")} as held, k.attempt, k.first_seen_at, k.last_seen_at, k.locked_until, k.owner
from ${keysTable(n)} k with (${keyIndex(n)}, forceseek)
where ${isKey};`;

/** The keys are picked without waiting. Then each is locked by its key, as the other calls lock it, and tested once more. */
function purgeKeys(n: QueueNames): string {
  const isOld = (k: string) =>
    `${k}.last_seen_at < @before and coalesce(${k}.processed_at, ${k}.locked_until, ${k}.last_seen_at) < @before`;
  const keys = n.bare("Keys");
  return `declare @before datetime2(3) = ${addMs(n, "@now", "-@retention_ms")};
declare @old table ([key] nvarchar(255) ${binary} not null primary key);

insert into @old ([key])
select top (@limit) r.[key]
from ${keysTable(n)} r with (index(${n.bare("Keys_FirstSeen")}), ${readPast})
where r.source = @source and r.first_seen_at < @before and ${isOld("r")}
order by r.first_seen_at, r.seq;

delete from ${keysTable(n)}
from @old o, ${keysTable(n)} with (${keyIndex(n)}, forceseek, ${seizeFree})
-- by each key: all keys of the source could be sought, too
where ${keys}.source = @source and ${keys}.[key] = o.[key] and ${isOld(keys)} ${rowByRow};

select @@rowcount as deleted;`;
}
