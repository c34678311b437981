-- The functions and procedures that both queues have. sqlserver.sql reads it once for each. Made by npm run render:sql; do not edit.
go

create or alter function [$(Schema)].[$(Queue)_After] (@time datetime2(3), @ms float)
returns table as return
select dateadd(millisecond, cast(cast(round(@ms, 0) as bigint) % 86400000 as int),
  dateadd(day, cast(cast(round(@ms, 0) as bigint) / 86400000 as int), @time)) as later
go

create or alter procedure [$(Schema)].[$(Queue)_ApplyPartitionChanges]
as
set nocount, xact_abort on;
begin transaction;
declare @locked int, @upto bigint;
declare @changes table (
  number bigint not null primary key, seq bigint not null, partition_key nvarchar(255) collate Latin1_General_100_BIN2 not null,
  change tinyint not null, unique (seq, number)
);
declare @heads table (seq bigint not null primary key, partition_key nvarchar(255) collate Latin1_General_100_BIN2 not null);
declare @free table (seq bigint not null primary key);

exec @locked = sp_getapplock @Resource = N'oncebox $(Schema).$(Queue) partitions', @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 0;

if @locked >= 0
begin
  select @upto = max(r.number) from [$(Schema)].[$(Queue)PartitionChanges] r with (readpast, rowlock, readcommittedlock);

  delete from [$(Schema)].[$(Queue)PartitionChanges]
  output deleted.number, deleted.seq, deleted.partition_key, deleted.change into @changes (number, seq, partition_key, change)
  from (
    select top (1000) r.number
    from [$(Schema)].[$(Queue)PartitionChanges] r with (updlock, readpast, rowlock, readcommittedlock)
    where r.number <= @upto
    order by r.number
  ) p, [$(Schema)].[$(Queue)PartitionChanges] with (forceseek, updlock, readpast, rowlock, readcommittedlock)
  where [$(Queue)PartitionChanges].number = p.number option (loop join, force order);

  delete from [$(Schema)].[$(Queue)PartitionQueue]
  from @changes c, [$(Schema)].[$(Queue)PartitionQueue] with (index([$(Queue)PartitionQueue_Seq]), forceseek, rowlock, readcommittedlock)
  where c.change = 1 and [$(Queue)PartitionQueue].seq = c.seq option (loop join, force order);

  -- the last change of a message decides; a dead message that kept its position and was replayed still has it
  insert into [$(Schema)].[$(Queue)PartitionQueue] (partition_key, seq)
  select c.partition_key, c.seq
  from @changes c
  where c.change = 0
    and not exists (select 1 from @changes l where l.seq = c.seq and l.number > c.number and l.change <> 2)
    and not exists (
      select 1 from [$(Schema)].[$(Queue)PartitionQueue] q with (index([$(Queue)PartitionQueue_Seq]), forceseek, readcommittedlock)
      where q.seq = c.seq
    )
  order by c.number option (loop join, force order);

  insert into @heads (seq, partition_key)
  select h.seq, k.partition_key
  from (select distinct c.partition_key from @changes c) k
  cross apply (
    select top (1) q.seq
    from [$(Schema)].[$(Queue)PartitionQueue] q with (index([$(Queue)PartitionQueue_PK]), forceseek, readcommittedlock)
    where q.partition_key = k.partition_key
    order by q.position
  ) h option (loop join, force order);

  insert into @free (seq)
  select s.seq
  from @heads h
  inner join [$(Schema)].[$(Queue)State] s with (forceseek, updlock, readpast, rowlock, readcommittedlock) on s.seq = h.seq option (loop join, force order);

  update [$(Schema)].[$(Queue)State]
  set status = 1
  from @free f, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
  where [$(Queue)State].seq = f.seq and [$(Queue)State].status = 5 option (loop join, force order);

  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select h.seq, h.partition_key, 2
  from @heads h
  where not exists (select 1 from @free f where f.seq = h.seq);
end
commit transaction;
go

create or alter procedure [$(Schema)].[$(Queue)_Claim]
  @now datetime2(3) = null, @owner uniqueidentifier, @lease_ms float, @limit int, @max_attempts int, @base_ms float,
  @factor float, @max_ms float, @jitter_ms float, @blocks bit
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
if exists (
  select 1 from [$(Schema)].[$(Queue)Controls] c with (index([$(Queue)Controls_Key]), forceseek)
  where c.scope = N'queue' and c.name = N'' and c.paused = 1
)
begin
  select cast(null as bigint) as seq, 'paused' as verdict;
  return;
end

declare @lease_end datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, @lease_ms) a);
declare @capped_from float =
  case when @base_ms >= @max_ms then 0 when @factor > 1 then log(@max_ms / @base_ms) / log(@factor) else 1000000 end;
declare @random bigint = abs(cast(checksum(newid()) as bigint)) % 1000000;
declare @picked table (
  seq bigint not null, status tinyint not null, locked_until datetime2(3) null, owner uniqueidentifier null,
  lost tinyint not null, dies tinyint not null, primary key (seq, status)
);
declare @claimed table (
  seq bigint not null primary key, status tinyint not null, expires_at datetime2(3) null, attempt int not null, keyed bit null
);
declare @verdict varchar(10) = 'claimed';

if exists (select 1 from [$(Schema)].[$(Queue)PartitionChanges] c with (readpast, rowlock, readcommittedlock))
  exec [$(Schema)].[$(Queue)_ApplyPartitionChanges];

begin transaction;
-- a message with two crashes is claimed alone
insert into @picked (seq, status, locked_until, owner, lost, dies)
select top (1) r.seq, r.status, r.locked_until, r.owner, case when r.locked_until is not null then 1 else 0 end,
  case when r.expires_at <= @now or (r.locked_until is not null and r.attempt + 1 >= @max_attempts) then 1 else 0 end
from [$(Schema)].[$(Queue)State] r with (index([$(Queue)_Held]), updlock, readpast, rowlock, readcommittedlock)
where r.status = 2 and r.visible_at <= @now and r.crashes + case when r.locked_until is not null then 1 else 0 end >= 2 and r.attempt >= 0
order by r.visible_at, r.seq;

if @@rowcount = 0
begin
  -- messages that come back from a worker were the first of the queue when they were claimed, and are again
  insert into @picked (seq, status, locked_until, owner, lost, dies)
  select top (@limit) r.seq, r.status, r.locked_until, r.owner, case when r.locked_until is not null then 1 else 0 end,
    case when r.expires_at <= @now or (r.locked_until is not null and r.attempt + 1 >= @max_attempts) then 1 else 0 end
  from [$(Schema)].[$(Queue)State] r with (index([$(Queue)_Held]), updlock, readpast, rowlock, readcommittedlock)
  where r.status = 2 and r.visible_at <= @now and r.attempt >= 0
  order by r.visible_at, r.seq;

  set @limit = @limit - @@rowcount;

  if @limit > 0
    insert into @picked (seq, status, locked_until, owner, lost, dies)
    select top (@limit) r.seq, r.status, r.locked_until, r.owner, case when r.locked_until is not null then 1 else 0 end,
      case when r.expires_at <= @now or (r.locked_until is not null and r.attempt + 1 >= @max_attempts) then 1 else 0 end
    from [$(Schema)].[$(Queue)State] r with (index([$(Queue)_Ready]), updlock, readpast, rowlock, readcommittedlock)
    where r.status = 1 and r.visible_at <= @now and r.attempt >= 0
    order by r.visible_at, r.seq;
end

-- the condition is repeated: where UPDLOCK does not lock, another claimer may have taken the row by now
update [$(Schema)].[$(Queue)State]
set status = case when p.dies = 1 then 4 else 2 end,
  attempt = [$(Queue)State].attempt + p.lost, crashes = [$(Queue)State].crashes + p.lost,
  owner = case when p.dies = 0 then @owner end, locked_until = case when p.dies = 0 then @lease_end end,
  due_since = [$(Queue)State].visible_at,
  visible_at = (select a.later from [$(Schema)].[$(Queue)_After](@lease_end,
    case when ([$(Queue)State].attempt + p.lost + 1) < @capped_from then @base_ms * power(@factor, ([$(Queue)State].attempt + p.lost + 1)) else @max_ms end
    + @jitter_ms * (([$(Queue)State].seq % 1000000 * 618034 + @random) % 1000000) / 1000000) a),
  last_error = case
    when [$(Queue)State].expires_at <= @now then N'It was not handled before its expiresAt.'
    when p.lost = 1 then N'The lease expired: its worker crashed, was cut off, or took too long without renewing.'
    else [$(Queue)State].last_error
  end,
  error_group = case
    when [$(Queue)State].expires_at <= @now then '0364ffd2687495ed' when p.lost = 1 then '95af8e5501557ab4' else [$(Queue)State].error_group
  end,
  died_at = case when p.dies = 1 then @now else [$(Queue)State].died_at end
output inserted.seq, inserted.status, inserted.expires_at, inserted.attempt, inserted.keyed
  into @claimed (seq, status, expires_at, attempt, keyed)
from @picked p, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = p.seq and [$(Queue)State].status = p.status and [$(Queue)State].visible_at <= @now
option (loop join, force order);

if exists (select 1 from @picked p where p.lost = 1)
begin
  insert into [$(Schema)].[$(Queue)Attempts] (seq, attempt, ended_at, worker, error)
  select c.seq, c.attempt, p.locked_until, p.owner,
    N'The lease expired: its worker crashed, was cut off, or took too long without renewing.'
  from @picked p inner join @claimed c on c.seq = p.seq
  where p.lost = 1;

  delete from [$(Schema)].[$(Queue)Attempts]
  from @claimed c, [$(Schema)].[$(Queue)Attempts] with (forceseek, updlock, rowlock, readcommittedlock)
  where [$(Queue)Attempts].seq = c.seq and [$(Queue)Attempts].number <= (
    select x.number from [$(Schema)].[$(Queue)Attempts] x with (forceseek, readcommittedlock) where x.seq = c.seq
    order by x.number desc offset 50 rows fetch next 1 row only
  ) option (loop join, force order);
end

if exists (select 1 from @claimed c where @blocks = 0 and c.keyed = 1 and c.status = 4)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 1 from @claimed c
  inner join [$(Schema)].[$(Queue)] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where @blocks = 0 and c.keyed = 1 and c.status = 4 and m.partition_key is not null order by c.seq option (loop join, force order);

if exists (select 1 from [$(Schema)].[$(Queue)Controls] k) set @verdict = 'controlled';

-- read before the commit: a claim whose rows cannot be returned is undone. No other transaction can have changed these
-- messages and not ended yet, because it would have locked their states first.
if @verdict = 'controlled' and not exists (select 1 from @claimed)
  select cast(null as bigint) as seq, @verdict as verdict;
else
  select s.seq, s.attempt, s.expires_at, s.visible_at as next_attempt_at, s.locked_until, s.owner, s.crashes, s.status,
    s.last_error, s.last_attempt_at, s.processed_at, s.processed_by, s.died_at, s.error_group, s.ended_as, m.*,
    case when c.status = 2 then @verdict when c.expires_at <= @now then 'expired' else 'exhausted' end as verdict
  from @claimed c
  inner join [$(Schema)].[$(Queue)State] s with (forceseek) on s.seq = c.seq
  cross apply [$(Schema)].[$(Queue)_MessageOf](c.seq) m
  order by c.seq option (loop join, force order);
commit transaction;
go

create or alter procedure [$(Schema)].[$(Queue)_Ack]
  @now datetime2(3) = null, @owner uniqueidentifier, @items nvarchar(max), @processed_by nvarchar(100)
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @changed table (seq bigint not null primary key, keyed bit null, attempt int not null);

begin transaction;
update [$(Schema)].[$(Queue)State]
set status = 3, owner = null, locked_until = null, processed_at = @now, processed_by = @processed_by
output inserted.seq, inserted.keyed, inserted.attempt into @changed (seq, keyed, attempt)
from openjson(@items) with (seq bigint '$') i, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = i.seq and [$(Queue)State].owner = @owner and [$(Queue)State].status = 2 option (loop join, force order);

if exists (select 1 from @changed c where c.keyed = 1)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 1 from @changed c
  inner join [$(Schema)].[$(Queue)] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where c.keyed = 1 and m.partition_key is not null order by c.seq option (loop join, force order);
commit transaction;

select c.seq from @changed c;
go

create or alter procedure [$(Schema)].[$(Queue)_Abandon]
  @now datetime2(3) = null, @owner uniqueidentifier, @items nvarchar(max), @max_attempts int, @base_ms float,
  @factor float, @max_ms float, @jitter_ms float, @blocks bit
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @capped_from float =
  case when @base_ms >= @max_ms then 0 when @factor > 1 then log(@max_ms / @base_ms) / log(@factor) else 1000000 end;
declare @random bigint = abs(cast(checksum(newid()) as bigint)) % 1000000;
declare @changed table (seq bigint not null primary key, status tinyint not null, keyed bit null, attempt int not null);

begin transaction;
update [$(Schema)].[$(Queue)State]
set status = case when i.attempts is null and [$(Queue)State].attempt + 1 >= @max_attempts then 4 else 1 end,
  attempt = [$(Queue)State].attempt + coalesce(i.attempts, 1), crashes = case when @max_attempts > 0 then 0 else [$(Queue)State].crashes end,
  owner = null, locked_until = null,
  visible_at = (select a.later from [$(Schema)].[$(Queue)_After](@now, coalesce(i.delay_ms,
    case when ([$(Queue)State].attempt + 1) < @capped_from then @base_ms * power(@factor, ([$(Queue)State].attempt + 1)) else @max_ms end
    + @jitter_ms * (([$(Queue)State].seq % 1000000 * 618034 + @random) % 1000000) / 1000000)) a),
  last_error = case when i.error is null and @max_attempts > 0 then [$(Queue)State].last_error else i.error collate Latin1_General_100_BIN2 end,
  error_group = case when i.error is null and @max_attempts > 0 then [$(Queue)State].error_group else i.error_group collate Latin1_General_100_BIN2 end,
  last_attempt_at = case when i.attempts = 0 then [$(Queue)State].last_attempt_at else @now end,
  died_at = case when i.attempts is null and [$(Queue)State].attempt + 1 >= @max_attempts then @now else [$(Queue)State].died_at end
output inserted.seq, inserted.status, inserted.keyed, inserted.attempt into @changed (seq, status, keyed, attempt)
from openjson(@items) with (seq bigint, delay_ms float, error nvarchar(max), error_group varchar(16), attempts int) i, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = i.seq and [$(Queue)State].owner = @owner and [$(Queue)State].status = 2 option (loop join, force order);

insert into [$(Schema)].[$(Queue)Attempts] (seq, attempt, ended_at, worker, error)
select c.seq, c.attempt, @now, @owner, i.error
from openjson(@items) with (seq bigint, error nvarchar(max), attempts int) i
inner join @changed c on c.seq = i.seq
where i.attempts is null option (loop join, force order);

delete from [$(Schema)].[$(Queue)Attempts]
from @changed c, [$(Schema)].[$(Queue)Attempts] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Attempts].seq = c.seq and [$(Queue)Attempts].number <= (
  select x.number from [$(Schema)].[$(Queue)Attempts] x with (forceseek, readcommittedlock) where x.seq = c.seq
  order by x.number desc offset 50 rows fetch next 1 row only
) option (loop join, force order);

if exists (select 1 from @changed c where @blocks = 0 and c.keyed = 1 and c.status = 4)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 1 from @changed c
  inner join [$(Schema)].[$(Queue)] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where @blocks = 0 and c.keyed = 1 and c.status = 4 and m.partition_key is not null order by c.seq option (loop join, force order);
commit transaction;

select c.seq, cast(case when c.status = 4 then 1 else 0 end as bit) as dead from @changed c;
go

create or alter procedure [$(Schema)].[$(Queue)_Fail]
  @now datetime2(3) = null, @owner uniqueidentifier, @items nvarchar(max), @error nvarchar(max),
  @error_group varchar(16), @blocks bit
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @failed nvarchar(max) = (
  select i.seq, 0 as delay_ms, @error as error, @error_group as error_group
  from openjson(@items) with (seq bigint '$') i
  for json path
);

exec [$(Schema)].[$(Queue)_Abandon] @now = @now, @owner = @owner, @items = @failed, @max_attempts = 0, @base_ms = 1, @factor = 1,
  @max_ms = 1, @jitter_ms = 0, @blocks = @blocks;
go

create or alter procedure [$(Schema)].[$(Queue)_Release]
  @now datetime2(3) = null, @owner uniqueidentifier, @items nvarchar(max)
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @changed table (seq bigint not null primary key, keyed bit null, attempt int not null);

update [$(Schema)].[$(Queue)State]
set owner = null, locked_until = null, visible_at = coalesce([$(Queue)State].due_since, @now)
output inserted.seq, inserted.keyed, inserted.attempt into @changed (seq, keyed, attempt)
from openjson(@items) with (seq bigint '$') i, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = i.seq and [$(Queue)State].owner = @owner option (loop join, force order);

select c.seq from @changed c;
go

create or alter procedure [$(Schema)].[$(Queue)_Renew]
  @now datetime2(3) = null, @owner uniqueidentifier, @items nvarchar(max), @lease_ms float, @base_ms float,
  @factor float, @max_ms float, @jitter_ms float
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @lease_end datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, @lease_ms) a);
declare @capped_from float =
  case when @base_ms >= @max_ms then 0 when @factor > 1 then log(@max_ms / @base_ms) / log(@factor) else 1000000 end;
declare @random bigint = abs(cast(checksum(newid()) as bigint)) % 1000000;
declare @changed table (seq bigint not null primary key, keyed bit null, attempt int not null);

update [$(Schema)].[$(Queue)State]
set locked_until = @lease_end,
  visible_at = (select a.later from [$(Schema)].[$(Queue)_After](@lease_end,
    case when ([$(Queue)State].attempt + 1) < @capped_from then @base_ms * power(@factor, ([$(Queue)State].attempt + 1)) else @max_ms end
    + @jitter_ms * (([$(Queue)State].seq % 1000000 * 618034 + @random) % 1000000) / 1000000) a)
output inserted.seq, inserted.keyed, inserted.attempt into @changed (seq, keyed, attempt)
from openjson(@items) with (seq bigint '$') i, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = i.seq and [$(Queue)State].owner = @owner and [$(Queue)State].status = 2 option (loop join, force order);

select c.seq from @changed c;
go

create or alter procedure [$(Schema)].[$(Queue)_Reap]
  @now datetime2(3) = null, @limit int, @max_attempts int, @blocks bit
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @picked table (
  seq bigint not null, status tinyint not null, locked_until datetime2(3) null, owner uniqueidentifier null,
  lost tinyint not null, dies tinyint not null, primary key (seq, status)
);
declare @reaped table (
  seq bigint not null primary key, status tinyint not null, expires_at datetime2(3) null, attempt int not null, keyed bit null
);

begin transaction;
insert into @picked (seq, status, locked_until, owner, lost, dies)
select top (@limit) r.seq, r.status, r.locked_until, r.owner, case when r.locked_until is not null then 1 else 0 end,
  case when r.expires_at <= @now or (r.locked_until is not null and r.attempt + 1 >= @max_attempts) then 1 else 0 end
from [$(Schema)].[$(Queue)State] r with (index([$(Queue)_Held]), updlock, readpast, rowlock, readcommittedlock)
where r.status = 2 and r.locked_until < @now and r.attempt >= 0
order by r.visible_at, r.seq;

set @limit = @limit - @@rowcount;

if @limit > 0
  insert into @picked (seq, status, locked_until, owner, lost, dies)
  select top (@limit) r.seq, r.status, r.locked_until, r.owner, case when r.locked_until is not null then 1 else 0 end,
    case when r.expires_at <= @now or (r.locked_until is not null and r.attempt + 1 >= @max_attempts) then 1 else 0 end
  from [$(Schema)].[$(Queue)State] r with (index([$(Queue)_Expiry]), updlock, readpast, rowlock, readcommittedlock)
  where r.expires_at <= @now and r.expires_at is not null and r.locked_until is null
      and r.status in (1, 2, 5, 7) and r.attempt >= 0
  order by r.expires_at;

-- visible_at already holds the end of the lease plus the back-off, so reaper and claim come to the same time
update [$(Schema)].[$(Queue)State]
set status = case when p.dies = 1 then 4 else 2 end,
  attempt = [$(Queue)State].attempt + p.lost, crashes = [$(Queue)State].crashes + p.lost, owner = null, locked_until = null, passes = null,
  last_error = case
    when [$(Queue)State].expires_at <= @now then N'It was not handled before its expiresAt.'
    else N'The lease expired: its worker crashed, was cut off, or took too long without renewing.'
  end,
  error_group = case when [$(Queue)State].expires_at <= @now then '0364ffd2687495ed' else '95af8e5501557ab4' end,
  last_attempt_at = coalesce([$(Queue)State].locked_until, [$(Queue)State].last_attempt_at),
  died_at = case when p.dies = 1 then @now else [$(Queue)State].died_at end
output inserted.seq, inserted.status, inserted.expires_at, inserted.attempt, inserted.keyed
  into @reaped (seq, status, expires_at, attempt, keyed)
from @picked p, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = p.seq and [$(Queue)State].status = p.status and (([$(Queue)State].status = 2 and [$(Queue)State].locked_until < @now) or ([$(Queue)State].expires_at <= @now and [$(Queue)State].expires_at is not null and [$(Queue)State].locked_until is null
    and [$(Queue)State].status in (1, 2, 5, 7)))
option (loop join, force order);

if exists (select 1 from @picked p where p.lost = 1)
begin
  insert into [$(Schema)].[$(Queue)Attempts] (seq, attempt, ended_at, worker, error)
  select c.seq, c.attempt, p.locked_until, p.owner,
    N'The lease expired: its worker crashed, was cut off, or took too long without renewing.'
  from @picked p inner join @reaped c on c.seq = p.seq
  where p.lost = 1;

  delete from [$(Schema)].[$(Queue)Attempts]
  from @reaped c, [$(Schema)].[$(Queue)Attempts] with (forceseek, updlock, rowlock, readcommittedlock)
  where [$(Queue)Attempts].seq = c.seq and [$(Queue)Attempts].number <= (
    select x.number from [$(Schema)].[$(Queue)Attempts] x with (forceseek, readcommittedlock) where x.seq = c.seq
    order by x.number desc offset 50 rows fetch next 1 row only
  ) option (loop join, force order);
end

if exists (select 1 from @reaped c where @blocks = 0 and c.keyed = 1 and c.status = 4)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 1 from @reaped c
  inner join [$(Schema)].[$(Queue)] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where @blocks = 0 and c.keyed = 1 and c.status = 4 and m.partition_key is not null order by c.seq option (loop join, force order);

if @blocks = 0 and exists (select 1 from [$(Schema)].[$(Queue)PartitionQueue] q with (readpast, rowlock, readcommittedlock))
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select q.seq, q.partition_key, 1
  from [$(Schema)].[$(Queue)State] s with (index([$(Queue)_Dead]), readpast, rowlock, readcommittedlock)
  inner join [$(Schema)].[$(Queue)PartitionQueue] q with (index([$(Queue)PartitionQueue_Seq]), forceseek, readpast, rowlock, readcommittedlock) on q.seq = s.seq
  where s.status = 4 and s.keyed = 1 option (loop join, force order);
commit transaction;

if exists (select 1 from [$(Schema)].[$(Queue)PartitionChanges] c with (readpast, rowlock, readcommittedlock))
  exec [$(Schema)].[$(Queue)_ApplyPartitionChanges];

select r.seq, k.*,
  case when r.status <> 4 then 'reaped' when r.expires_at <= @now then 'expired' else 'exhausted' end as verdict
from @reaped r
cross apply [$(Schema)].[$(Queue)_KeyOf](r.seq) k option (loop join, force order);
go

create or alter procedure [$(Schema)].[$(Queue)_Purge]
  @now datetime2(3) = null, @limit int, @retention_ms float, @after_seq bigint, @source nvarchar(255), @status tinyint
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @before datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, -@retention_ms) a);
declare @last_seq bigint, @more bit;
declare @scanned table (seq bigint not null primary key, ended_at datetime2(3) null, keyed bit null);
declare @kept table (seq bigint not null);
declare @old table (seq bigint not null primary key);
declare @gone table (seq bigint not null primary key);

if @status = 3
  insert into @scanned (seq, ended_at)
  select top (@limit) s.seq, case when s.status = 3 then s.processed_at end
  from [$(Schema)].[$(Queue)State] s with (forceseek, readpast, rowlock, readcommittedlock)
  where s.seq > @after_seq
  order by s.seq;
else
  insert into @scanned (seq, ended_at, keyed)
  select top (@limit) s.seq, s.died_at, s.keyed
  from [$(Schema)].[$(Queue)State] s with (index([$(Queue)_Dead]), forceseek, readpast, rowlock, readcommittedlock)
  where s.status = 4 and s.seq > @after_seq
  order by s.seq;

select @last_seq = max(w.seq), @more = case when count(*) = @limit then 1 else 0 end from @scanned w;

if not exists (select 1 from [$(Schema)].[$(Queue)] m with (forceseek, readpast, rowlock, readcommittedlock) where m.seq = @last_seq and m.$(BornAt) < @before)
  set @more = 0;

if exists (select 1 from @scanned w where w.keyed = 1)
begin
  insert into @kept (seq)
  select q.seq
  from @scanned w
  inner join [$(Schema)].[$(Queue)PartitionQueue] q with (index([$(Queue)PartitionQueue_Seq]), forceseek, rowlock, readcommittedlock) on q.seq = w.seq
  where w.keyed = 1 option (loop join, force order);

  insert into @kept (seq)
  select c.seq
  from [$(Schema)].[$(Queue)PartitionChanges] c with (readpast, rowlock, readcommittedlock)
  inner join @scanned w on w.seq = c.seq option (loop join, force order);

  delete from @scanned where seq in (select k.seq from @kept k);
end

begin transaction;
insert into @old (seq)
select m.seq
from @scanned w
inner join [$(Schema)].[$(Queue)] m with (forceseek, updlock, readpast, rowlock, readcommittedlock) on m.seq = w.seq
inner join [$(Schema)].[$(Queue)State] s with (forceseek, updlock, readpast, rowlock, readcommittedlock) on s.seq = m.seq
cross apply [$(Schema)].[$(Queue)_KeyOf](m.seq) k
where w.ended_at < @before and s.status = @status and case when @status = 3 then s.processed_at else s.died_at end < @before
  and (s.locked_until is null or s.locked_until <= @now) and m.$(SeenAt) < @before
  and (@source is null or k.source = @source collate Latin1_General_100_BIN2) option (loop join, force order);

-- the condition is repeated: where UPDLOCK does not lock, it may have been delivered again by now
delete from [$(Schema)].[$(Queue)]
output deleted.seq into @gone (seq)
from @old o, [$(Schema)].[$(Queue)] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)].seq = o.seq and [$(Queue)].$(SeenAt) < @before option (loop join, force order);

delete from [$(Schema)].[$(Queue)State]
from @gone g, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = g.seq option (loop join, force order);

delete from [$(Schema)].[$(Queue)Attempts]
from @gone g, [$(Schema)].[$(Queue)Attempts] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Attempts].seq = g.seq option (loop join, force order);
commit transaction;

select count(*) as deleted, @last_seq as last_seq, @more as more from @gone g;
go

create or alter procedure [$(Schema)].[$(Queue)_List]
  @now datetime2(3) = null, @status tinyint, @status_2 tinyint, @status_3 tinyint, @status_4 tinyint, @status_5 tinyint,
  @leased bit, @ended_as varchar(10), @topic nvarchar(255), @source nvarchar(255), @error nvarchar(max),
  @error_group varchar(16), @older_than_ms float, @newer_than_ms float, @after_seq bigint, @limit int
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
if @@trancount = 0 and exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)
  set transaction isolation level read uncommitted;

declare @until datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, -@older_than_ms) a);
declare @since datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, -@newer_than_ms) a);

select top (@limit) s.seq, s.attempt, s.expires_at, s.visible_at as next_attempt_at, s.locked_until, s.owner, s.crashes, s.status,
  s.last_error, s.last_attempt_at, s.processed_at, s.processed_by, s.died_at, s.error_group, s.ended_as, m.*
from [$(Schema)].[$(Queue)State] s
cross apply [$(Schema)].[$(Queue)_MessageOf](s.seq) m
where s.seq > @after_seq
  and (@status is null or (s.status in (@status, @status_2, @status_3, @status_4, @status_5) and (s.status <> 6 or case when s.locked_until is null then 0 else 2 end in (@status, @status_2, @status_3, @status_4, @status_5))))
  and (@ended_as is null or s.ended_as = @ended_as)
  and (@leased is null or case when s.locked_until is not null then 1 else 0 end = @leased)
  and (@topic is null or m.topic = @topic collate Latin1_General_100_BIN2)
  and (@source is null or exists (select 1 from [$(Schema)].[$(Queue)_KeyOf](s.seq) k where k.source = @source collate Latin1_General_100_BIN2))
  and (@error is null or charindex(@error collate Latin1_General_100_BIN2, s.last_error collate Latin1_General_100_BIN2) > 0)
  and (@error_group is null or coalesce(s.error_group, '') = @error_group)
  and (@until is null or case when s.status = 4 then s.died_at else m.$(BornAt) end <= @until)
  and (@since is null or case when s.status = 4 then s.died_at else m.$(BornAt) end >= @since)
order by s.seq
option (recompile);
go

create or alter procedure [$(Schema)].[$(Queue)_Stats]
  @now datetime2(3) = null
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
if @@trancount = 0 and exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)
  set transaction isolation level read uncommitted;

declare @paused bit = case when exists (
  select 1 from [$(Schema)].[$(Queue)Controls] c with (index([$(Queue)Controls_Key]), forceseek)
  where c.scope = N'queue' and c.name = N'' and c.paused = 1
) then 1 else 0 end;
declare @pauses bit = case when exists (select 1 from [$(Schema)].[$(Queue)Controls] c where c.paused = 1 and c.scope <> N'queue') then 1 else 0 end;

-- an apply, because a group may not be made by a subquery; without pauses of topics and sources it looks at no message
select s.status, cast(case when s.locked_until is not null then 1 else 0 end as bit) as leased, cast(case when s.attempt > 0 then 1 else 0 end as bit) as retried,
  h.held, count_big(*) as [count], sum(cast(case when s.visible_at <= @now and s.status in (1, 2) then 1 else 0 end as bigint)) as due,
  datediff_big(millisecond, min(case when s.visible_at <= @now and s.status in (1, 2) then s.visible_at end), @now) as oldest_due_ms,
  sum(cast(case when s.status = 4 and s.expires_at <= @now then 1 else 0 end as bigint)) as expired, @paused as paused, s.ended_as
from [$(Schema)].[$(Queue)State] s
cross apply (
  select cast(case
    when @pauses = 0 or s.status not in (1, 2, 5, 7) then 0
    when (
      select top (1) 1 from [$(Schema)].[$(Queue)_KeyOf](s.seq) m inner join [$(Schema)].[$(Queue)Controls] c on (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source))
      where c.paused = 1 and c.scope <> N'queue'
    ) = 1 then 1
    else 0
  end as bit) as held
) h
group by s.status, case when s.locked_until is not null then 1 else 0 end, case when s.attempt > 0 then 1 else 0 end, h.held, s.ended_as;
go

create or alter procedure [$(Schema)].[$(Queue)_OldestDue]
  @now datetime2(3) = null
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
if @@trancount = 0 and exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)
  set transaction isolation level read uncommitted;

declare @pauses bit = case when exists (select 1 from [$(Schema)].[$(Queue)Controls] c where c.paused = 1 and c.scope <> N'queue') then 1 else 0 end;

select datediff_big(millisecond, min(d.visible_at), @now) as oldest_due_ms
from (
  select (
    select top (1) s.visible_at
    from [$(Schema)].[$(Queue)State] s with (index([$(Queue)_Ready]))
    where s.status = 1 and s.visible_at <= @now and (@pauses = 0 or (
      select top (1) 1 from [$(Schema)].[$(Queue)_KeyOf](s.seq) m inner join [$(Schema)].[$(Queue)Controls] c on (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source))
      where c.paused = 1 and c.scope <> N'queue'
    ) is null)
    order by s.visible_at
  ) as visible_at
  union all
  select (
    select top (1) s.visible_at
    from [$(Schema)].[$(Queue)State] s with (index([$(Queue)_Held]))
    where s.status = 2 and s.visible_at <= @now and (@pauses = 0 or (
      select top (1) 1 from [$(Schema)].[$(Queue)_KeyOf](s.seq) m inner join [$(Schema)].[$(Queue)Controls] c on (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source))
      where c.paused = 1 and c.scope <> N'queue'
    ) is null)
    order by s.visible_at
  ) as visible_at
) d
where not exists (
  select 1 from [$(Schema)].[$(Queue)Controls] c with (index([$(Queue)Controls_Key]), forceseek)
  where c.scope = N'queue' and c.name = N'' and c.paused = 1
);
go

create or alter procedure [$(Schema)].[$(Queue)_Due]
  @now datetime2(3) = null
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
if exists (
  select 1 from [$(Schema)].[$(Queue)Controls] c with (index([$(Queue)Controls_Key]), forceseek)
  where c.scope = N'queue' and c.name = N'' and c.paused = 1
) return 0;
if exists (
  select 1 from [$(Schema)].[$(Queue)State] r with (index([$(Queue)_Ready]), readpast, rowlock, readcommittedlock) where r.status = 1 and r.visible_at <= @now
) return 1;
if exists (
  select 1 from [$(Schema)].[$(Queue)State] r with (index([$(Queue)_Held]), readpast, rowlock, readcommittedlock) where r.status = 2 and r.visible_at <= @now
) return 1;
if exists (
  select 1 from [$(Schema)].[$(Queue)PartitionChanges] c with (readpast, rowlock, readcommittedlock)
  where c.change <> 1 or exists (
    select 1 from [$(Schema)].[$(Queue)PartitionQueue] q with (index([$(Queue)PartitionQueue_PK]), forceseek, readpast, rowlock, readcommittedlock)
    where q.partition_key = c.partition_key and q.seq <> c.seq
  )
) return 1;
if exists (
  select 1 from [$(Schema)].[$(Queue)Controls] c with (readpast, rowlock, readcommittedlock)
  where c.paused = 0 and exists (
    select 1 from [$(Schema)].[$(Queue)State] r with (index([$(Queue)_Parked]), forceseek, readpast, rowlock, readcommittedlock)
    where r.status = 7 and r.parked_by = c.id
  )
) return 1;
return 0;
go

create or alter procedure [$(Schema)].[$(Queue)_Replay]
  @now datetime2(3) = null, @items nvarchar(max), @ttl_ms float
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @changed table (seq bigint not null primary key, keyed bit null, attempt int not null);

begin transaction;
update [$(Schema)].[$(Queue)State]
set status = case when [$(Queue)State].keyed = 1 then 5 else 1 end,
  attempt = 0, crashes = 0, owner = null, locked_until = null, visible_at = @now,
  expires_at = (select a.later from [$(Schema)].[$(Queue)_After](@now, @ttl_ms) a), processed_at = null, processed_by = null, died_at = null
output inserted.seq, inserted.keyed, inserted.attempt into @changed (seq, keyed, attempt)
from openjson(@items) with (seq bigint '$') i, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = i.seq and [$(Queue)State].status = 4 option (loop join, force order);

if exists (select 1 from @changed c where c.keyed = 1)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 0 from @changed c
  inner join [$(Schema)].[$(Queue)] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where c.keyed = 1 and m.partition_key is not null order by c.seq option (loop join, force order);
commit transaction;

select c.seq from @changed c;
go

create or alter procedure [$(Schema)].[$(Queue)_Discard]
  @items nvarchar(max)
as
set nocount, xact_abort on;
declare @gone table (seq bigint not null primary key, keyed bit null);

begin transaction;
insert into @gone (seq, keyed)
select m.seq, s.keyed
from openjson(@items) with (seq bigint '$') i
inner join [$(Schema)].[$(Queue)] m with (forceseek, updlock, rowlock, readcommittedlock) on m.seq = i.seq
inner join [$(Schema)].[$(Queue)State] s with (forceseek, updlock, rowlock, readcommittedlock) on s.seq = m.seq
where s.status = 4 option (loop join, force order);

if exists (select 1 from @gone c where c.keyed = 1)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 1 from @gone c
  inner join [$(Schema)].[$(Queue)] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where c.keyed = 1 and m.partition_key is not null order by c.seq option (loop join, force order);

delete from [$(Schema)].[$(Queue)]
from @gone g, [$(Schema)].[$(Queue)] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)].seq = g.seq option (loop join, force order);

delete from [$(Schema)].[$(Queue)State]
from @gone g, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = g.seq option (loop join, force order);

delete from [$(Schema)].[$(Queue)Attempts]
from @gone g, [$(Schema)].[$(Queue)Attempts] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Attempts].seq = g.seq option (loop join, force order);
commit transaction;

select g.seq from @gone g;
go

create or alter procedure [$(Schema)].[$(Queue)_AddOperation]
  @now datetime2(3) = null, @id uniqueidentifier, @who nvarchar(255), @action nvarchar(20), @filter nvarchar(max)
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
insert into [$(Schema)].[oncebox_operations] (id, started_at, who, action, queue, filter)
values (@id, @now, @who, @action, N'$(Kind):$(Queue)', @filter);
go

create or alter procedure [$(Schema)].[$(Queue)_MoveOperation]
  @now datetime2(3) = null, @id uniqueidentifier, @matched bigint, @done bigint, @last_seq bigint, @ended bit,
  @who nvarchar(255)
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
update [$(Schema)].[oncebox_operations] with (updlock, rowlock, readcommittedlock)
set matched = @matched, done = @done, last_seq = @last_seq, ended_at = case when @ended = 1 then @now end,
  resumed_by = coalesce(@who, resumed_by), resumed_at = case when @who is null then resumed_at else @now end
where id = @id;
go

create or alter procedure [$(Schema)].[$(Queue)_PurgeOperations]
  @now datetime2(3) = null, @retention_ms float, @limit int
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
delete top (@limit) from [$(Schema)].[oncebox_operations] with (readpast, rowlock, readcommittedlock)
where queue = N'$(Kind):$(Queue)' and ended_at < (select a.later from [$(Schema)].[$(Queue)_After](@now, -@retention_ms) a);

select @@rowcount as deleted;
go

create or alter procedure [$(Schema)].[$(Queue)_ApplyControls]
  @given_now datetime2(3) = null, @owner uniqueidentifier, @items nvarchar(max), @limit int
as
set nocount, xact_abort on;
declare @now datetime2(3);
declare @id bigint = 0, @next bigint, @per_second float, @tokens float, @refilled_at datetime2(3);
declare @burst float, @elapsed_ms float, @most int, @count int, @until_token float;
declare @kept nvarchar(max), @freed int = 0, @returned int = 0, @ending int = 0, @wait_ms float;
declare @controls table (
  id bigint not null primary key, scope nvarchar(10) collate Latin1_General_100_BIN2 not null, name nvarchar(255) collate Latin1_General_100_BIN2 not null,
  paused bit not null, per_second float null, tokens float not null, refilled_at datetime2(3) not null
);
declare @owned table (seq bigint not null primary key, passes varchar(max) null);
declare @parked table (seq bigint not null primary key, control bigint not null);

begin transaction;
insert into @owned (seq, passes)
select s.seq, s.passes
from openjson(@items) with (seq bigint '$') i
inner join [$(Schema)].[$(Queue)State] s with (forceseek, updlock, rowlock, readcommittedlock) on s.seq = i.seq
where s.owner = @owner and s.status = 2 option (loop join, force order);

-- by the key, as an operator's change locks them: its key first, then its row
insert into @controls (id, scope, name, paused, per_second, tokens, refilled_at)
select c.id, c.scope, c.name, c.paused, c.per_second, c.tokens, c.refilled_at
from [$(Schema)].[$(Queue)Controls] c with (index([$(Queue)Controls_Key]), updlock, rowlock, readcommittedlock)
order by c.scope, c.name;

set @now = coalesce(@given_now, sysutcdatetime());

insert into @parked (seq, control)
select p.seq, p.control
from (
  select o.seq, (
      select top (1) c.id
      from @controls c
      where (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source)) and (c.paused = 1 or (
        c.per_second is not null and charindex(',' + cast(c.id as varchar(20)) + ',', coalesce(o.passes, '')) = 0
      ))
      order by c.paused desc, c.id
    ) as control
  from @owned o
  cross apply [$(Schema)].[$(Queue)_KeyOf](o.seq) m
) p
where p.control is not null option (loop join, force order);

update [$(Schema)].[$(Queue)State]
set status = 7, parked_by = p.control, owner = null, locked_until = null,
  visible_at = [$(Queue)State].due_since
from @parked p, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = p.seq and [$(Queue)State].owner = @owner and [$(Queue)State].status = 2 option (loop join, force order);

while 1 = 1
begin
  set @next = null;
  select top (1) @next = c.id, @per_second = c.per_second, @tokens = c.tokens, @refilled_at = c.refilled_at
  from @controls c
  where c.id > @id and c.paused = 0
  order by c.id;
  if @next is null break;
  set @id = @next;
  set @burst = case when @per_second > 1 then @per_second else 1 end;
  set @elapsed_ms = case when @refilled_at < @now then datediff_big(millisecond, @refilled_at, @now) else 0 end;
  set @tokens = @tokens + @per_second * @elapsed_ms / 1000;
  if @tokens > @burst set @tokens = @burst; -- at most the tokens of one second
  set @most = case when @per_second is null then 500 when @tokens < @limit then cast(floor(@tokens) as int) else @limit end;

  update [$(Schema)].[$(Queue)State]
  set status = case when [$(Queue)State].crashes > 0 then 2 else 1 end,
    -- a pause that has ended is no pass
    passes = case
      when @per_second is null then [$(Queue)State].passes else coalesce([$(Queue)State].passes, ',') + cast(@id as varchar(20)) + ','
    end
  from (
    select top (@most) r.seq
    from [$(Schema)].[$(Queue)State] r with (index([$(Queue)_Parked]), updlock, readpast, rowlock, readcommittedlock)
    where r.status = 7 and r.parked_by = @id and r.attempt >= 0
    order by r.visible_at, r.seq
  ) p, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
  where [$(Queue)State].seq = p.seq and [$(Queue)State].status = 7 option (loop join, force order);

  set @count = @@rowcount;
  set @freed = @freed + @count;

  if @per_second is null
  begin
    set @returned = @returned + @count;
    -- skips nothing: a message that is left without its control would stay parked
    if exists (
      select 1 from [$(Schema)].[$(Queue)State] r with (index([$(Queue)_Parked]), forceseek)
      where r.status = 7 and r.parked_by = @id
    ) set @ending = @ending + 1;
    else delete from [$(Schema)].[$(Queue)Controls] with (updlock, rowlock, readcommittedlock) where id = @id;
  end
  else
  begin
    set @tokens = @tokens - @count;
    update [$(Schema)].[$(Queue)Controls] with (updlock, rowlock, readcommittedlock) set tokens = @tokens, refilled_at = @now where id = @id;
    set @until_token = case when @tokens < 1 then (1 - @tokens) / @per_second * 1000 else 0 end;
    if (@wait_ms is null or @wait_ms > @until_token) and exists (
      select 1 from [$(Schema)].[$(Queue)State] r with (index([$(Queue)_Parked]), forceseek, readpast, rowlock, readcommittedlock)
      where r.status = 7 and r.parked_by = @id
    ) set @wait_ms = @until_token;
  end
end

update [$(Schema)].[$(Queue)State]
set passes = null
from @owned o, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = o.seq and [$(Queue)State].owner = @owner and [$(Queue)State].status = 2 and [$(Queue)State].passes is not null option (loop join, force order);

select @kept = N'[' + string_agg(cast(s.seq as nvarchar(max)), N',') + N']' from @owned o
inner join [$(Schema)].[$(Queue)State] s with (forceseek) on s.seq = o.seq
where s.owner = @owner and s.status = 2 option (loop join, force order);
commit transaction;

select @kept as kept, @freed as freed, @returned as returned, @ending as ending, @wait_ms as wait_ms;
go

create or alter procedure [$(Schema)].[$(Queue)_PutControl]
  @now datetime2(3) = null, @scope nvarchar(10), @name nvarchar(255), @paused bit, @per_second float, @who nvarchar(255)
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
begin transaction;
update [$(Schema)].[$(Queue)Controls]
set paused = coalesce(@paused, paused), per_second = coalesce(@per_second, per_second), who = @who, changed_at = @now
from [$(Schema)].[$(Queue)Controls] with (index([$(Queue)Controls_Key]), forceseek, updlock, rowlock, serializable)
where scope = @scope and name = @name;

if @@rowcount = 0
  insert into [$(Schema)].[$(Queue)Controls] (scope, name, paused, per_second, refilled_at, who, changed_at)
  values (@scope, @name, coalesce(@paused, 0), @per_second, @now, @who, @now);
commit transaction;
go

create or alter procedure [$(Schema)].[$(Queue)_EndControl]
  @now datetime2(3) = null, @scope nvarchar(10), @name nvarchar(255), @paused bit, @who nvarchar(255)
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
update [$(Schema)].[$(Queue)Controls]
set paused = case when @paused = 1 then 0 else paused end, per_second = case when @paused = 1 then per_second end,
  who = @who, changed_at = @now
from [$(Schema)].[$(Queue)Controls] with (index([$(Queue)Controls_Key]), forceseek, updlock, rowlock, readcommittedlock)
where scope = @scope and name = @name and ((@paused = 1 and paused = 1) or (@paused = 0 and per_second is not null));

return @@rowcount;
go

create or alter procedure [$(Schema)].[$(Queue)_Controls]
  @scope nvarchar(10) = null, @name nvarchar(255) = null
as
set nocount, xact_abort on;
if @@trancount = 0 and exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)
  set transaction isolation level read uncommitted;

select c.id, c.scope, c.name, c.paused, c.per_second, c.who, c.changed_at, (
    select count_big(*) from [$(Schema)].[$(Queue)State] s with (index([$(Queue)_Parked]), forceseek)
    where s.status = 7 and s.parked_by = c.id
  ) as parked
from [$(Schema)].[$(Queue)Controls] c
where @scope is null or (c.scope = @scope and c.name = @name)
order by c.id;
go
