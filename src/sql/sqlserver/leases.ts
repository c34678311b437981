import { crashesBeforeAlone } from "../../queue/leases.js";
import { reasonGroup, reasons } from "../dead-letters.js";
import { status } from "../dialect.js";
import { literal, type QueueNames } from "../names.js";
import { claimControls, isPaused } from "./controls.js";
import {
  addMs,
  asBit,
  asInt,
  backoffSql,
  binary,
  inLines,
  moreAttempts,
  moreCrashes,
  prepareBackoff,
  unicodeLiteral,
} from "./expressions.js";
import { finish, finishedTable, insertDone, recordAttempts } from "./history.js";
import { hasChanges, joinPartition, leavePartition } from "./partitions.js";
import {
  atomically,
  claimable,
  claimedRow,
  columns,
  indented,
  isLost,
  keyOf,
  lockRow,
  owned,
  ownRow,
  pickFrom,
  prepareLease,
  rowByRow,
  seqs,
  stateTable,
  withMessage,
} from "./procedure.js";

export function claim(n: QueueNames): string {
  const s = stateTable(n);
  const controls = claimControls(n);
  const from = pickFrom(n);
  const order = "r.visible_at, r.seq";
  return `declare @now datetime2(3), @lease_end datetime2(3);

if ${isPaused(n)}
begin
  select cast(null as bigint) as seq, 'paused' as verdict;
  return;
end

${prepareBackoff}
${pickedTables}
${controls.declare}

if ${hasChanges(n)}
  exec ${n.object("_ApplyPartitionChanges")};

${atomically(`if ${controls.exist}
${indented(controls.lock)}

-- from here on it waits for nobody, so a lease is as long as it was asked for
set @now = sysutcdatetime();
set @lease_end = ${addMs(n, "@now", "@lease_ms")};

if ${controls.exist}
begin
${indented(`${controls.read}

insert into @picked (${pickedColumns}, topic, source)
select top (@limit) ${picked}, m.topic, m.source
from ${from}
cross apply ${keyOf(n, "r.seq")} m
where ${claimable("r")}
  and ${controls.lets(dies("r"))}
-- the pick stops at the last message that it takes, and locks none behind it
order by ${order} ${rowByRow};

${controls.cut}`)}
end
else
${indented(pick({ from, where: claimable("r"), order }))}

-- a message with two crashes is claimed by itself
if exists (select 1 from @picked p where p.crashes >= ${crashesBeforeAlone})
  delete from @picked
  where seq <> (select top (1) p.seq from @picked p where p.crashes >= ${crashesBeforeAlone} order by p.visible_at, p.seq);

-- No indexed column of a leased row changes. The condition is repeated: where UPDLOCK does not lock, another claimer may
-- have taken the row by now.
${changePicked(
  n,
  `status = case when p.dies = 1 then ${status.dead} else ${status.ready} end,
  owner = case when p.dies = 0 then @owner end, locked_until = case when p.dies = 0 then @lease_end end,
  due_since = ${s}.reclaimable_at,
  reclaimable_at = ${addMs(n, "@lease_end", `\n    ${backoffSql(`(${s}.attempt + p.lost + 1)`, `${s}.seq`)}`)}`,
  claimable(s),
)}

${controls.take}`)}

-- Read after the commit: a client that reads long payloads slowly, or not at all, holds no locks. When the rows do not arrive, their
-- leases end as after a lost response. Only messages are read, and states were noted in @changed: who holds a row and waits for
-- another could be part of a deadlock.
if @wait_ms is not null
  select cast(null as bigint) as seq, 'limited' as verdict, @wait_ms as wait_ms;
else
  select ${claimedRow},
    case when c.status = ${status.ready} then 'claimed' when c.expires_at <= @now then 'expired' else 'exhausted' end as verdict
  from @changed c
  ${withMessage(n, "c.seq")}
  order by c.seq;`;
}

/** What a claim returns of a state. */
const leased = {
  attempt: "int not null",
  crashes: "int not null",
  locked_until: "datetime2(3) null",
  reclaimable_at: "datetime2(3) null",
  expires_at: "datetime2(3) null",
  last_error: "nvarchar(max) null",
  last_attempt_at: "datetime2(3) null",
};
const changedColumns = ["seq", "status", "keyed", ...Object.keys(leased)].join(", ");

/**
 * @picked has the rows that a claim or the reaper chose and locked, with the leases that it ends. `lost`: a worker had it, and that
 * is a crash. A claim that keeps to limits asks for the topic and the source, too. @changed has what became of the rows.
 */
export const pickedTables = `declare @picked table (
  seq bigint not null primary key, visible_at datetime2(3) not null, locked_until datetime2(3) null, owner uniqueidentifier null,
  lost int not null, crashes int not null, dies int not null, topic nvarchar(255) ${binary} null, source nvarchar(255) ${binary} null
);
declare @changed table (
  ${inLines(["seq bigint not null primary key", "status tinyint not null", "keyed bit null", ...Object.entries(leased).map(([column, type]) => `${column} ${type}`)])}
);`;

/** Picks rows `r`, @limit at most. */
export const pick = ({
  from,
  where,
  order,
}: Readonly<Record<"from" | "where" | "order", string>>): string => `insert into @picked (${pickedColumns})
select top (@limit) ${picked}
from ${from}
where ${where}
order by ${order};`;

/** A claimable row with a lease was lost by its worker. That counts as an attempt, perhaps the last. */
const dies = (s: string): string =>
  `${s}.expires_at <= @now or (${isLost(s)} and ${s}.attempt + 1 >= @max_attempts)`;

const pickedColumns = "seq, visible_at, locked_until, owner, lost, crashes, dies";
const picked = `r.seq, r.visible_at, r.locked_until, r.owner, ${asInt(isLost("r"))},
  ${moreCrashes("r", asInt(isLost("r")))}, ${asInt(dies("r"))}`;

/**
 * Changes the rows of @picked that still match the condition, and records the attempts that ended with their leases. `set` is what
 * claim and reaper do differently.
 */
export function changePicked(n: QueueNames, set: string, condition: string): string {
  const s = stateTable(n);
  const attempts = `select c.seq, c.attempt, p.locked_until, p.owner,
  ${unicodeLiteral(reasons.leaseExpired)}
from @picked p inner join @changed c on c.seq = p.seq
where p.lost = 1`;
  return `update ${n.state}
set ${set},
  attempt = ${moreAttempts(s, "p.lost")}, crashes = p.crashes,
  last_error = case
    when ${s}.expires_at <= @now then ${unicodeLiteral(reasons.expired)}
    when p.lost = 1 then ${unicodeLiteral(reasons.leaseExpired)}
    else ${s}.last_error
  end,
  error_group = case
    when ${s}.expires_at <= @now then ${literal(reasonGroup("expired"))} when p.lost = 1 then ${literal(reasonGroup("leaseExpired"))} else ${s}.error_group
  end,
  died_at = case when p.dies = 1 then @now else ${s}.died_at end
output ${columns("inserted", changedColumns)}
  into @changed (${changedColumns})
from @picked p, ${n.state} with (${lockRow})
-- by each row: the condition alone could be sought, too
where ${s}.seq = p.seq and ${condition}
${rowByRow};

if exists (select 1 from @picked p where p.lost = 1)
begin
${indented(recordAttempts(n, attempts))}
end

${leaveIfDead(n)}`;
}

/** The dead among @changed leave their partition queues, unless they shall block them. */
const leaveIfDead = (n: QueueNames): string =>
  leavePartition(n, "@changed", `@blocks = 0 and c.keyed = 1 and c.status = ${status.dead}`);

/** Deletes the states and keeps the messages as done. */
export const ack = (n: QueueNames): string => `${finishedTable}

${atomically(`${finish(n, `${seqs}, ${n.state} with (${lockRow})`, `${stateTable(n)}.seq = i.seq and ${owned(stateTable(n))}`)}

${insertDone(n, "f.last_error", { processed_by: "@processed_by" })}

${leavePartition(n, "@finished", "c.keyed = 1")}`)}

if @acked is null
  select f.seq from @finished f;
else
  set @acked = coalesce((select f.seq from @finished f for json path), N'[]');`;

/** With @max_attempts 0 the message has no attempt left: it fails, keeps no earlier error, and its crashes stay counted. */
export function abandon(n: QueueNames): string {
  const s = stateTable(n);
  return `${prepareBackoff}
declare @changed table (seq bigint not null primary key, status tinyint not null, keyed bit null, attempt int not null);

${atomically(`update ${n.state}
set status = case when i.attempts is null and ${s}.attempt + 1 >= @max_attempts then ${status.dead} else ${status.ready} end,
  attempt = ${moreAttempts(s, "coalesce(i.attempts, 1)")},
  crashes = case when @max_attempts > 0 then 0 else ${s}.crashes end,
  owner = null, locked_until = null, reclaimable_at = null,
  visible_at = ${addMs(n, "@now", `coalesce(i.delay_ms,\n    ${backoffSql(`(${s}.attempt + 1)`, `${s}.seq`)})`)},
  last_error = case when i.error is null and @max_attempts > 0 then ${s}.last_error else i.error ${binary} end,
  error_group = case when i.error is null and @max_attempts > 0 then ${s}.error_group else i.error_group ${binary} end,
  last_attempt_at = case when i.attempts = 0 then ${s}.last_attempt_at else @now end,
  died_at = case when i.attempts is null and ${s}.attempt + 1 >= @max_attempts then @now else ${s}.died_at end
output inserted.seq, inserted.status, inserted.keyed, inserted.attempt into @changed (seq, status, keyed, attempt)
from openjson(@items) with (seq bigint, delay_ms float, error nvarchar(max), error_group varchar(16), attempts int) i, ${n.state} with (${lockRow})
where ${s}.seq = i.seq and ${owned(s)};

${recordAttempts(
  n,
  `select c.seq, c.attempt, @now, @owner, i.error
from openjson(@items) with (seq bigint, error nvarchar(max), attempts int) i
inner join @changed c on c.seq = i.seq
where i.attempts is null`,
)}

${leaveIfDead(n)}`)}

select c.seq, ${asBit(`c.status = ${status.dead}`)} as dead from @changed c;`;
}

/** Abandons the messages that @items numbers, with no attempt left. The back-off is of no matter. */
export const fail = (n: QueueNames): string => `declare @failed nvarchar(max) = (
  select i.seq, 0 as delay_ms, @error as error, @error_group as error_group
  from ${seqs}
  for json path
);

exec ${n.object("_Abandon")} @owner = @owner, @items = @failed, @max_attempts = 0, @base_ms = 1, @factor = 1,
  @max_ms = 1, @jitter_ms = 0, @blocks = @blocks;`;

/**
 * The message keeps its place in the order, the time since when it was claimable and its count of crashes. A dead message whose
 * expiry was reported stays dead.
 */
export const release = (n: QueueNames): string => {
  const s = stateTable(n);
  return settle(n, `owner = null, locked_until = null, reclaimable_at = ${s}.due_since`, owned(s));
};

export const renew = (n: QueueNames): string => {
  const s = stateTable(n);
  const until = addMs(n, "@lease_end", `\n    ${backoffSql(`(${s}.attempt + 1)`, `${s}.seq`)}`);
  return `${prepareLease(n)}
${prepareBackoff}
${settle(n, `locked_until = @lease_end,\n  reclaimable_at = ${until}`, owned(s))}`;
};

/** Dead messages are handled again, as if they were new. */
export const replay = (n: QueueNames): string => {
  const s = stateTable(n);
  return settle(
    n,
    `status = case when ${s}.keyed = 1 then ${status.blocked} else ${status.ready} end,
  attempt = 0, crashes = 0, owner = null, locked_until = null, reclaimable_at = null, visible_at = @now,
  expires_at = ${addMs(n, "@now", "@ttl_ms")}, died_at = null`,
    `${s}.status = ${status.dead}`,
    joinPartition(n, "@changed", "c.keyed = 1"),
  );
};

/** Updates the rows that @items numbers and returns the numbers of those that it changed. `after` runs in the same transaction. */
function settle(n: QueueNames, set: string, condition: string, after?: string): string {
  const update = `update ${n.state}
set ${set}
output inserted.seq, inserted.keyed into @changed (seq, keyed)
from ${seqs}, ${n.state} with (${ownRow}, ${lockRow})
where ${stateTable(n)}.seq = i.seq and ${condition};`;
  return `declare @changed table (seq bigint not null primary key, keyed bit null);

${after === undefined ? update : atomically(`${update}\n\n${after}`)}

select c.seq from @changed c;`;
}
