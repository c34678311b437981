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
declare @unlocked table (seq bigint not null primary key);

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
  where [$(Queue)PartitionChanges].number = p.number;

  delete from [$(Schema)].[$(Queue)PartitionQueue]
  from @changes c, [$(Schema)].[$(Queue)PartitionQueue] with (forceseek, rowlock, readcommittedlock)
  where c.change = 1 and [$(Queue)PartitionQueue].seq = c.seq;

  -- the last change of a message decides; a dead message that kept its position and was replayed still has it
  insert into [$(Schema)].[$(Queue)PartitionQueue] (partition_key, seq)
  select c.partition_key, c.seq
  from @changes c
  where c.change = 0
    and not exists (select 1 from @changes l where l.seq = c.seq and l.number > c.number and l.change <> 2)
    and not exists (
      select 1 from [$(Schema)].[$(Queue)PartitionQueue] q with (forceseek, readcommittedlock)
      where q.seq = c.seq
    )
  order by c.number;

  insert into @heads (seq, partition_key)
  select h.seq, k.partition_key
  from (select distinct c.partition_key from @changes c) k
  cross apply (
    select top (1) q.seq
    from [$(Schema)].[$(Queue)PartitionQueue] q with (forceseek, readcommittedlock)
    where q.partition_key = k.partition_key
    order by q.position
  ) h;

  insert into @unlocked (seq)
  select s.seq
  from @heads h
  inner join [$(Schema)].[$(Queue)State] s with (forceseek, updlock, readpast, rowlock, readcommittedlock) on s.seq = h.seq;

  update [$(Schema)].[$(Queue)State]
  set status = 1
  from @unlocked u, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
  where [$(Queue)State].seq = u.seq and [$(Queue)State].status = 5;

  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select h.seq, h.partition_key, 2
  from @heads h
  where not exists (select 1 from @unlocked u where u.seq = h.seq);
end
commit transaction;
go

create or alter procedure [$(Schema)].[$(Queue)_Claim]
  @owner uniqueidentifier, @lease_ms float, @limit int, @max_attempts int, @base_ms float, @factor float, @max_ms float,
  @jitter_ms float, @blocks bit
as
set nocount, xact_abort on;
declare @now datetime2(3), @lease_end datetime2(3);

if exists (
  select 1 from [$(Schema)].[$(Queue)Controls] c with (forceseek)
  where c.scope = N'queue' and c.name = N'' and c.paused = 1
)
begin
  select cast(null as bigint) as seq, 'paused' as verdict;
  return;
end

declare @capped_from float =
  case when @base_ms >= @max_ms then 0 when @factor > 1 then log(@max_ms / @base_ms) / log(@factor) else 2000000000 end;
declare @random bigint = abs(cast(checksum(newid()) as bigint)) % 1000000;
declare @picked table (
  seq bigint not null primary key, visible_at datetime2(3) not null, locked_until datetime2(3) null, owner uniqueidentifier null,
  lost int not null, crashes int not null, dies int not null, topic nvarchar(255) collate Latin1_General_100_BIN2 null, source nvarchar(255) collate Latin1_General_100_BIN2 null
);
declare @changed table (
  seq bigint not null primary key, status tinyint not null, keyed bit null, attempt int not null, crashes int not null,
  locked_until datetime2(3) null, reclaimable_at datetime2(3) null, expires_at datetime2(3) null,
  last_error nvarchar(max) null, last_attempt_at datetime2(3) null
);
declare @controls table (
  scope nvarchar(10) collate Latin1_General_100_BIN2 not null, name nvarchar(255) collate Latin1_General_100_BIN2 not null, paused bit not null,
  per_second float null, tokens float not null, primary key (scope, name)
);
declare @limits int = 0, @wait_ms float;

if exists (select 1 from [$(Schema)].[$(Queue)PartitionChanges] c with (readpast, rowlock, readcommittedlock))
  exec [$(Schema)].[$(Queue)_ApplyPartitionChanges];

begin transaction;
if exists (select 1 from [$(Schema)].[$(Queue)Controls] c)
  select @limits = count(*)
  from [$(Schema)].[$(Queue)Controls] c with (updlock, rowlock, readcommittedlock)
  where c.per_second is not null;

-- from here on it waits for nobody, so a lease is as long as it was asked for
set @now = sysutcdatetime();
set @lease_end = (select a.later from [$(Schema)].[$(Queue)_After](@now, @lease_ms) a);

if exists (select 1 from [$(Schema)].[$(Queue)Controls] c)
begin
  update [$(Schema)].[$(Queue)Controls] with (updlock, rowlock, readcommittedlock)
  set tokens = case -- at most those of one second
      when tokens + per_second * case when refilled_at < @now then datediff_big(millisecond, refilled_at, @now) else 0 end / 1000 < case when per_second > 1 then per_second else 1 end
        then tokens + per_second * case when refilled_at < @now then datediff_big(millisecond, refilled_at, @now) else 0 end / 1000
      else case when per_second > 1 then per_second else 1 end
    end,
    refilled_at = case when refilled_at < @now then @now else refilled_at end
  where per_second is not null;

  insert into @controls (scope, name, paused, per_second, tokens)
  select c.scope, c.name, c.paused, c.per_second, c.tokens from [$(Schema)].[$(Queue)Controls] c where c.paused = 1 or c.per_second is not null;

  insert into @picked (seq, visible_at, locked_until, owner, lost, crashes, dies, topic, source)
  select top (@limit) r.seq, r.visible_at, r.locked_until, r.owner, case when r.locked_until is not null then 1 else 0 end,
    case when r.crashes + case when r.locked_until is not null then 1 else 0 end < 10000 then r.crashes + case when r.locked_until is not null then 1 else 0 end else 10000 end, case when r.expires_at <= @now or (r.locked_until is not null and r.attempt + 1 >= @max_attempts) then 1 else 0 end, m.topic, m.source
  from [$(Schema)].[$(Queue)State] r with (forceseek, updlock, readpast, rowlock, readcommittedlock)
  cross apply [$(Schema)].[$(Queue)_KeyOf](r.seq) m
  where r.status = 1 and r.visible_at <= @now and (r.reclaimable_at is null or r.reclaimable_at <= @now)
    and not exists (
      select 1 from @controls c
      where (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source)) and (c.paused = 1
        or (c.per_second is not null and c.tokens < 1 and c.scope <> N'queue' and case when r.expires_at <= @now or (r.locked_until is not null and r.attempt + 1 >= @max_attempts) then 1 else 0 end = 0))
    )
  -- the pick stops at the last message that it takes, and locks none behind it
  order by r.visible_at, r.seq option (loop join, force order);

  delete from @picked
  where seq in (
    select x.seq
    from (
      select m.seq, c.tokens, row_number() over (partition by c.scope, c.name order by m.visible_at, m.seq) as place
      from @picked m inner join @controls c on c.per_second is not null and (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source))
      where m.dies = 0
    ) x
    where x.place > floor(x.tokens)
  );
end
else
  insert into @picked (seq, visible_at, locked_until, owner, lost, crashes, dies)
  select top (@limit) r.seq, r.visible_at, r.locked_until, r.owner, case when r.locked_until is not null then 1 else 0 end,
    case when r.crashes + case when r.locked_until is not null then 1 else 0 end < 10000 then r.crashes + case when r.locked_until is not null then 1 else 0 end else 10000 end, case when r.expires_at <= @now or (r.locked_until is not null and r.attempt + 1 >= @max_attempts) then 1 else 0 end
  from [$(Schema)].[$(Queue)State] r with (forceseek, updlock, readpast, rowlock, readcommittedlock)
  where r.status = 1 and r.visible_at <= @now and (r.reclaimable_at is null or r.reclaimable_at <= @now)
  order by r.visible_at, r.seq;

-- a message with two crashes is claimed by itself
if exists (select 1 from @picked p where p.crashes >= 2)
  delete from @picked
  where seq <> (select top (1) p.seq from @picked p where p.crashes >= 2 order by p.visible_at, p.seq);

-- No indexed column of a leased row changes. The condition is repeated: where UPDLOCK does not lock, another claimer may
-- have taken the row by now.
update [$(Schema)].[$(Queue)State]
set status = case when p.dies = 1 then 4 else 1 end,
  owner = case when p.dies = 0 then @owner end, locked_until = case when p.dies = 0 then @lease_end end,
  due_since = [$(Queue)State].reclaimable_at,
  reclaimable_at = (select a.later from [$(Schema)].[$(Queue)_After](@lease_end,
    case when ([$(Queue)State].attempt + p.lost + 1) < @capped_from then @base_ms * power(@factor, ([$(Queue)State].attempt + p.lost + 1)) else @max_ms end
    + @jitter_ms * (([$(Queue)State].seq % 1000000 * 618034 + @random) % 1000000) / 1000000) a),
  attempt = case when [$(Queue)State].attempt + p.lost < 1000000000 then [$(Queue)State].attempt + p.lost else 1000000000 end, crashes = p.crashes,
  last_error = case
    when [$(Queue)State].expires_at <= @now then N'It was not handled before its expiresAt.'
    when p.lost = 1 then N'The lease expired: its worker crashed, was cut off, or took too long without renewing.'
    else [$(Queue)State].last_error
  end,
  error_group = case
    when [$(Queue)State].expires_at <= @now then '0364ffd2687495ed' when p.lost = 1 then '95af8e5501557ab4' else [$(Queue)State].error_group
  end,
  died_at = case when p.dies = 1 then @now else [$(Queue)State].died_at end
output inserted.seq, inserted.status, inserted.keyed, inserted.attempt, inserted.crashes, inserted.locked_until,
  inserted.reclaimable_at, inserted.expires_at, inserted.last_error, inserted.last_attempt_at
  into @changed (seq, status, keyed, attempt, crashes, locked_until, reclaimable_at, expires_at, last_error, last_attempt_at)
from @picked p, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
-- by each row: the condition alone could be sought, too
where [$(Queue)State].seq = p.seq and [$(Queue)State].status = 1 and [$(Queue)State].visible_at <= @now and ([$(Queue)State].reclaimable_at is null or [$(Queue)State].reclaimable_at <= @now)
option (loop join, force order);

if exists (select 1 from @picked p where p.lost = 1)
begin
  insert into [$(Schema)].[$(Queue)Attempts] (seq, attempt, ended_at, worker, error)
  select c.seq, c.attempt, p.locked_until, p.owner,
    N'The lease expired: its worker crashed, was cut off, or took too long without renewing.'
  from @picked p inner join @changed c on c.seq = p.seq
  where p.lost = 1;

  delete from [$(Schema)].[$(Queue)Attempts]
  from @changed c, [$(Schema)].[$(Queue)Attempts] with (forceseek, updlock, rowlock, readcommittedlock)
  where [$(Queue)Attempts].seq = c.seq and [$(Queue)Attempts].number <= (
    select x.number from [$(Schema)].[$(Queue)Attempts] x with (forceseek, readcommittedlock) where x.seq = c.seq
    order by x.number desc offset 50 rows fetch next 1 row only
  );
end

if exists (select 1 from @changed c where @blocks = 0 and c.keyed = 1 and c.status = 4)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 1 from @changed c
  inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where @blocks = 0 and c.keyed = 1 and c.status = 4 and m.partition_key is not null order by c.seq;

if exists (select 1 from @controls c where c.per_second is not null)
begin
  update [$(Schema)].[$(Queue)Controls]
  set tokens = t.tokens - t.taken
  from (
    select c.scope, c.name, c.tokens, count(*) as taken
    from @changed k
    inner join @picked m on m.seq = k.seq
    inner join @controls c on c.per_second is not null and (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source))
    where k.status = 1
    group by c.scope, c.name, c.tokens
  ) t, [$(Schema)].[$(Queue)Controls] with (forceseek, updlock, rowlock, readcommittedlock)
  where [$(Queue)Controls].scope = t.scope and [$(Queue)Controls].name = t.name;

  if not exists (select 1 from @changed)
    select @wait_ms = min((1 - c.tokens) / c.per_second * 1000)
    from @controls c
    where c.per_second is not null and c.tokens < 1 and exists (
      select 1
      from [$(Schema)].[$(Queue)State] r with (forceseek, updlock, readpast, rowlock, readcommittedlock)
      cross apply [$(Schema)].[$(Queue)_KeyOf](r.seq) m
      where r.status = 1 and r.visible_at <= @now and (r.reclaimable_at is null or r.reclaimable_at <= @now) and (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source))
        and not exists (select 1 from @controls h where h.paused = 1 and (h.scope = N'queue' or (h.scope = N'topic' and h.name = m.topic) or (h.scope = N'source' and h.name = m.source)))
    ) option (loop join, force order); -- stops at the first message, and locks none behind it
end
commit transaction;

-- Read after the commit: a client that reads long payloads slowly, or not at all, holds no locks. When the rows do not arrive, their
-- leases end as after a lost response. Only messages are read, and states were noted in @changed: who holds a row and waits for
-- another could be part of a deadlock.
if @wait_ms is not null
  select cast(null as bigint) as seq, 'limited' as verdict, @wait_ms as wait_ms;
else
  select c.seq, c.attempt, c.crashes, c.locked_until, c.reclaimable_at as next_attempt_at, c.expires_at,
    c.last_error, c.last_attempt_at, m.*,
    case when c.status = 1 then 'claimed' when c.expires_at <= @now then 'expired' else 'exhausted' end as verdict
  from @changed c
  cross apply [$(Schema)].[$(Queue)_MessageOf](c.seq) m
  order by c.seq;
go

create or alter procedure [$(Schema)].[$(Queue)_Ack]
  @owner uniqueidentifier, @items nvarchar(max), @processed_by nvarchar(100), @acked nvarchar(max) = null output
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @finished table (seq bigint not null primary key, attempt int not null, last_error nvarchar(max) null, keyed bit null);

begin transaction;
delete from [$(Schema)].[$(Queue)State]
output deleted.seq, deleted.attempt, deleted.last_error, deleted.keyed into @finished (seq, attempt, last_error, keyed)
from openjson(@items) with (seq bigint '$') i, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = i.seq and [$(Queue)State].owner = @owner;

insert into [$(Schema)].[$(Queue)Done] (seq, processed_at, attempt, last_error, processed_by)
select f.seq, @now, f.attempt, f.last_error, @processed_by from @finished f;

if exists (select 1 from @finished c where c.keyed = 1)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 1 from @finished c
  inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where c.keyed = 1 and m.partition_key is not null order by c.seq;
commit transaction;

if @acked is null
  select f.seq from @finished f;
else
  set @acked = coalesce((select f.seq from @finished f for json path), N'[]');
go

create or alter procedure [$(Schema)].[$(Queue)_Abandon]
  @owner uniqueidentifier, @items nvarchar(max), @max_attempts int, @base_ms float, @factor float, @max_ms float,
  @jitter_ms float, @blocks bit
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @capped_from float =
  case when @base_ms >= @max_ms then 0 when @factor > 1 then log(@max_ms / @base_ms) / log(@factor) else 2000000000 end;
declare @random bigint = abs(cast(checksum(newid()) as bigint)) % 1000000;
declare @changed table (seq bigint not null primary key, status tinyint not null, keyed bit null, attempt int not null);

begin transaction;
update [$(Schema)].[$(Queue)State]
set status = case when i.attempts is null and [$(Queue)State].attempt + 1 >= @max_attempts then 4 else 1 end,
  attempt = case when [$(Queue)State].attempt + coalesce(i.attempts, 1) < 1000000000 then [$(Queue)State].attempt + coalesce(i.attempts, 1) else 1000000000 end,
  crashes = case when @max_attempts > 0 then 0 else [$(Queue)State].crashes end,
  owner = null, locked_until = null, reclaimable_at = null,
  visible_at = (select a.later from [$(Schema)].[$(Queue)_After](@now, coalesce(i.delay_ms,
    case when ([$(Queue)State].attempt + 1) < @capped_from then @base_ms * power(@factor, ([$(Queue)State].attempt + 1)) else @max_ms end
    + @jitter_ms * (([$(Queue)State].seq % 1000000 * 618034 + @random) % 1000000) / 1000000)) a),
  last_error = case when i.error is null and @max_attempts > 0 then [$(Queue)State].last_error else i.error collate Latin1_General_100_BIN2 end,
  error_group = case when i.error is null and @max_attempts > 0 then [$(Queue)State].error_group else i.error_group collate Latin1_General_100_BIN2 end,
  last_attempt_at = case when i.attempts = 0 then [$(Queue)State].last_attempt_at else @now end,
  died_at = case when i.attempts is null and [$(Queue)State].attempt + 1 >= @max_attempts then @now else [$(Queue)State].died_at end
output inserted.seq, inserted.status, inserted.keyed, inserted.attempt into @changed (seq, status, keyed, attempt)
from openjson(@items) with (seq bigint, delay_ms float, error nvarchar(max), error_group varchar(16), attempts int) i, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = i.seq and [$(Queue)State].owner = @owner;

insert into [$(Schema)].[$(Queue)Attempts] (seq, attempt, ended_at, worker, error)
select c.seq, c.attempt, @now, @owner, i.error
from openjson(@items) with (seq bigint, error nvarchar(max), attempts int) i
inner join @changed c on c.seq = i.seq
where i.attempts is null;

delete from [$(Schema)].[$(Queue)Attempts]
from @changed c, [$(Schema)].[$(Queue)Attempts] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Attempts].seq = c.seq and [$(Queue)Attempts].number <= (
  select x.number from [$(Schema)].[$(Queue)Attempts] x with (forceseek, readcommittedlock) where x.seq = c.seq
  order by x.number desc offset 50 rows fetch next 1 row only
);

if exists (select 1 from @changed c where @blocks = 0 and c.keyed = 1 and c.status = 4)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 1 from @changed c
  inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where @blocks = 0 and c.keyed = 1 and c.status = 4 and m.partition_key is not null order by c.seq;
commit transaction;

select c.seq, cast(case when c.status = 4 then 1 else 0 end as bit) as dead from @changed c;
go

create or alter procedure [$(Schema)].[$(Queue)_Fail]
  @owner uniqueidentifier, @items nvarchar(max), @error nvarchar(max), @error_group varchar(16), @blocks bit
as
set nocount, xact_abort on;
declare @failed nvarchar(max) = (
  select i.seq, 0 as delay_ms, @error as error, @error_group as error_group
  from openjson(@items) with (seq bigint '$') i
  for json path
);

exec [$(Schema)].[$(Queue)_Abandon] @owner = @owner, @items = @failed, @max_attempts = 0, @base_ms = 1, @factor = 1,
  @max_ms = 1, @jitter_ms = 0, @blocks = @blocks;
go

create or alter procedure [$(Schema)].[$(Queue)_Release]
  @owner uniqueidentifier, @items nvarchar(max)
as
set nocount, xact_abort on;
declare @changed table (seq bigint not null primary key, keyed bit null);

update [$(Schema)].[$(Queue)State]
set owner = null, locked_until = null, reclaimable_at = [$(Queue)State].due_since
output inserted.seq, inserted.keyed into @changed (seq, keyed)
from openjson(@items) with (seq bigint '$') i, [$(Schema)].[$(Queue)State] with (index(1), forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = i.seq and [$(Queue)State].owner = @owner;

select c.seq from @changed c;
go

create or alter procedure [$(Schema)].[$(Queue)_Renew]
  @owner uniqueidentifier, @items nvarchar(max), @lease_ms float, @base_ms float, @factor float, @max_ms float,
  @jitter_ms float
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @lease_end datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, @lease_ms) a);
declare @capped_from float =
  case when @base_ms >= @max_ms then 0 when @factor > 1 then log(@max_ms / @base_ms) / log(@factor) else 2000000000 end;
declare @random bigint = abs(cast(checksum(newid()) as bigint)) % 1000000;
declare @changed table (seq bigint not null primary key, keyed bit null);

update [$(Schema)].[$(Queue)State]
set locked_until = @lease_end,
  reclaimable_at = (select a.later from [$(Schema)].[$(Queue)_After](@lease_end,
    case when ([$(Queue)State].attempt + 1) < @capped_from then @base_ms * power(@factor, ([$(Queue)State].attempt + 1)) else @max_ms end
    + @jitter_ms * (([$(Queue)State].seq % 1000000 * 618034 + @random) % 1000000) / 1000000) a)
output inserted.seq, inserted.keyed into @changed (seq, keyed)
from openjson(@items) with (seq bigint '$') i, [$(Schema)].[$(Queue)State] with (index(1), forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = i.seq and [$(Queue)State].owner = @owner;

select c.seq from @changed c;
go

create or alter procedure [$(Schema)].[$(Queue)_Reap]
  @limit int, @max_attempts int, @blocks bit
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @picked table (
  seq bigint not null primary key, visible_at datetime2(3) not null, locked_until datetime2(3) null, owner uniqueidentifier null,
  lost int not null, crashes int not null, dies int not null, topic nvarchar(255) collate Latin1_General_100_BIN2 null, source nvarchar(255) collate Latin1_General_100_BIN2 null
);
declare @changed table (
  seq bigint not null primary key, status tinyint not null, keyed bit null, attempt int not null, crashes int not null,
  locked_until datetime2(3) null, reclaimable_at datetime2(3) null, expires_at datetime2(3) null,
  last_error nvarchar(max) null, last_attempt_at datetime2(3) null
);

begin transaction;
insert into @picked (seq, visible_at, locked_until, owner, lost, crashes, dies)
select top (@limit) r.seq, r.visible_at, r.locked_until, r.owner, case when r.locked_until is not null then 1 else 0 end,
  case when r.crashes + case when r.locked_until is not null then 1 else 0 end < 10000 then r.crashes + case when r.locked_until is not null then 1 else 0 end else 10000 end, case when r.expires_at <= @now or (r.locked_until is not null and r.attempt + 1 >= @max_attempts) then 1 else 0 end
from [$(Schema)].[$(Queue)State] r with (updlock, readpast, rowlock, readcommittedlock)
where r.status in (1, 5) and (r.locked_until < @now or (r.locked_until is null and r.expires_at <= @now))
order by r.seq;

-- reclaimable_at already holds the end of the lease plus the back-off, so reaper and claim come to the same time
update [$(Schema)].[$(Queue)State]
set status = case when p.dies = 1 then 4 else [$(Queue)State].status end, owner = null, locked_until = null,
  last_attempt_at = coalesce([$(Queue)State].locked_until, [$(Queue)State].last_attempt_at),
  attempt = case when [$(Queue)State].attempt + p.lost < 1000000000 then [$(Queue)State].attempt + p.lost else 1000000000 end, crashes = p.crashes,
  last_error = case
    when [$(Queue)State].expires_at <= @now then N'It was not handled before its expiresAt.'
    when p.lost = 1 then N'The lease expired: its worker crashed, was cut off, or took too long without renewing.'
    else [$(Queue)State].last_error
  end,
  error_group = case
    when [$(Queue)State].expires_at <= @now then '0364ffd2687495ed' when p.lost = 1 then '95af8e5501557ab4' else [$(Queue)State].error_group
  end,
  died_at = case when p.dies = 1 then @now else [$(Queue)State].died_at end
output inserted.seq, inserted.status, inserted.keyed, inserted.attempt, inserted.crashes, inserted.locked_until,
  inserted.reclaimable_at, inserted.expires_at, inserted.last_error, inserted.last_attempt_at
  into @changed (seq, status, keyed, attempt, crashes, locked_until, reclaimable_at, expires_at, last_error, last_attempt_at)
from @picked p, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
-- by each row: the condition alone could be sought, too
where [$(Queue)State].seq = p.seq and [$(Queue)State].status in (1, 5) and ([$(Queue)State].locked_until < @now or ([$(Queue)State].locked_until is null and [$(Queue)State].expires_at <= @now))
option (loop join, force order);

if exists (select 1 from @picked p where p.lost = 1)
begin
  insert into [$(Schema)].[$(Queue)Attempts] (seq, attempt, ended_at, worker, error)
  select c.seq, c.attempt, p.locked_until, p.owner,
    N'The lease expired: its worker crashed, was cut off, or took too long without renewing.'
  from @picked p inner join @changed c on c.seq = p.seq
  where p.lost = 1;

  delete from [$(Schema)].[$(Queue)Attempts]
  from @changed c, [$(Schema)].[$(Queue)Attempts] with (forceseek, updlock, rowlock, readcommittedlock)
  where [$(Queue)Attempts].seq = c.seq and [$(Queue)Attempts].number <= (
    select x.number from [$(Schema)].[$(Queue)Attempts] x with (forceseek, readcommittedlock) where x.seq = c.seq
    order by x.number desc offset 50 rows fetch next 1 row only
  );
end

if exists (select 1 from @changed c where @blocks = 0 and c.keyed = 1 and c.status = 4)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 1 from @changed c
  inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where @blocks = 0 and c.keyed = 1 and c.status = 4 and m.partition_key is not null order by c.seq;

if @blocks = 0 and exists (select 1 from [$(Schema)].[$(Queue)PartitionQueue] q with (readpast, rowlock, readcommittedlock))
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select q.seq, q.partition_key, 1
  from [$(Schema)].[$(Queue)State] s with (readpast, rowlock, readcommittedlock)
  inner join [$(Schema)].[$(Queue)PartitionQueue] q with (forceseek, readpast, rowlock, readcommittedlock) on q.seq = s.seq
  where s.status = 4 and s.keyed = 1;
commit transaction;

if exists (select 1 from [$(Schema)].[$(Queue)PartitionChanges] c with (readpast, rowlock, readcommittedlock))
  exec [$(Schema)].[$(Queue)_ApplyPartitionChanges];

select r.seq, k.*,
  case when r.status <> 4 then 'reaped' when r.expires_at <= @now then 'expired' else 'exhausted' end as verdict
from @changed r
cross apply [$(Schema)].[$(Queue)_KeyOf](r.seq) k;
go

create or alter procedure [$(Schema)].[$(Queue)_List]
  @status tinyint, @status_2 tinyint, @status_3 tinyint, @leased bit, @resolution varchar(10), @topic nvarchar(255),
  @source nvarchar(255), @error nvarchar(max), @error_group varchar(16), @older_than_ms float, @newer_than_ms float,
  @after_seq bigint, @limit int
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
if @@trancount = 0 and exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)
  set lock_timeout 1000;

declare @until datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, -@older_than_ms) a);
declare @since datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, -@newer_than_ms) a);

select top (@limit) w.seq as seq, coalesce(s.status, 3) as status,
  coalesce(s.attempt, d.attempt, 0) as attempt, coalesce(s.crashes, 0) as crashes, s.owner, s.locked_until,
  coalesce(s.reclaimable_at, s.visible_at, d.processed_at, sysutcdatetime()) as next_attempt_at,
  case when s.seq is null then m.given_expires_at else s.expires_at end as expires_at,
  coalesce(s.last_error, d.last_error) as last_error, s.error_group, s.last_attempt_at, s.died_at,
  d.processed_at, d.processed_by, d.resolution, m.*
from (
  select m.seq from [$(Schema)].[$(Queue)Messages] m
  where @status is null and @resolution is null and m.seq > @after_seq
  union all
  select s.seq from [$(Schema)].[$(Queue)State] s
  where @status <> 3 and @resolution is null and s.seq > @after_seq and s.status in (@status, @status_2, @status_3)
  union all
  select d.seq from [$(Schema)].[$(Queue)Done] d
  where (@status = 3 or @resolution is not null) and d.seq > @after_seq and (@resolution is null or d.resolution = @resolution)
) w
left join [$(Schema)].[$(Queue)State] s with (forceseek) on s.seq = w.seq
left join [$(Schema)].[$(Queue)Done] d with (forceseek) on d.seq = w.seq
cross apply [$(Schema)].[$(Queue)_MessageOf](w.seq) m
where (@status is null or coalesce(s.status, 3) in (@status, @status_2, @status_3))
  and (@leased is null or case when s.locked_until is not null then 1 else 0 end = @leased)
  and (@topic is null or m.topic = @topic collate Latin1_General_100_BIN2)
  and (@source is null or exists (select 1 from [$(Schema)].[$(Queue)_KeyOf](w.seq) k where k.source = @source collate Latin1_General_100_BIN2))
  and (@error is null or charindex(@error collate Latin1_General_100_BIN2, coalesce(s.last_error, d.last_error) collate Latin1_General_100_BIN2) > 0)
  and (@error_group is null or coalesce(s.error_group, '') = @error_group)
  and (@until is null or case when s.status = 4 then s.died_at else m.$(CreatedAt) end <= @until)
  and (@since is null or case when s.status = 4 then s.died_at else m.$(CreatedAt) end >= @since)
order by w.seq
option (recompile);
go

create or alter procedure [$(Schema)].[$(Queue)_Stats]
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
if exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)
  set transaction isolation level read uncommitted;

declare @controls table (
  scope nvarchar(10) collate Latin1_General_100_BIN2 not null, name nvarchar(255) collate Latin1_General_100_BIN2 not null, paused bit not null,
  per_second float null, tokens float not null, primary key (scope, name)
);
insert into @controls (scope, name, paused, per_second, tokens)
select c.scope, c.name, c.paused, c.per_second, c.tokens from [$(Schema)].[$(Queue)Controls] c where c.paused = 1;
declare @pauses bit = case when exists (select 1 from @controls) then 1 else 0 end;

-- an apply, because a group may not be made by a subquery; without pauses it looks at no message
select s.status, cast(case when s.locked_until is not null then 1 else 0 end as bit) as leased, cast(case when s.attempt > 0 then 1 else 0 end as bit) as retried,
  h.paused, count_big(*) as [count], sum(cast(case when s.status = 1 and s.visible_at <= @now and (s.reclaimable_at is null or s.reclaimable_at <= @now) then 1 else 0 end as bigint)) as due,
  datediff_big(millisecond, min(case when s.status = 1 and s.visible_at <= @now and (s.reclaimable_at is null or s.reclaimable_at <= @now) then coalesce(s.reclaimable_at, s.visible_at) end), @now) as oldest_due_ms,
  sum(cast(case when s.status = 4 and s.expires_at <= @now then 1 else 0 end as bigint)) as expired, cast(null as varchar(10)) as resolution
from [$(Schema)].[$(Queue)State] s
cross apply (
  select cast(case
    when @pauses = 0 or s.status not in (1, 2, 5) then 0
    when (select top (1) 1 from [$(Schema)].[$(Queue)_KeyOf](s.seq) m inner join @controls c on (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source))) = 1 then 1
    else 0
  end as bit) as paused
) h
group by s.status, case when s.locked_until is not null then 1 else 0 end, case when s.attempt > 0 then 1 else 0 end, h.paused
union all
select 3, 0, 0, 0, count_big(*), 0, null, 0, d.resolution collate Latin1_General_100_BIN2
from [$(Schema)].[$(Queue)Done] d
group by d.resolution;
go

create or alter procedure [$(Schema)].[$(Queue)_OldestDue]
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
if exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)
  set transaction isolation level read uncommitted;

declare @controls table (
  scope nvarchar(10) collate Latin1_General_100_BIN2 not null, name nvarchar(255) collate Latin1_General_100_BIN2 not null, paused bit not null,
  per_second float null, tokens float not null, primary key (scope, name)
);
insert into @controls (scope, name, paused, per_second, tokens)
select c.scope, c.name, c.paused, c.per_second, c.tokens from [$(Schema)].[$(Queue)Controls] c where c.paused = 1;
declare @pauses bit = case when exists (select 1 from @controls) then 1 else 0 end;

select datediff_big(millisecond, min(coalesce(s.reclaimable_at, s.visible_at)), @now) as oldest_due_ms
from [$(Schema)].[$(Queue)State] s
where s.status = 1 and s.visible_at <= @now and (s.reclaimable_at is null or s.reclaimable_at <= @now) and (@pauses = 0 or (select top (1) 1 from [$(Schema)].[$(Queue)_KeyOf](s.seq) m inner join @controls c on (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source))) is null);
go

create or alter procedure [$(Schema)].[$(Queue)_Due]
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @controls table (
  scope nvarchar(10) collate Latin1_General_100_BIN2 not null, name nvarchar(255) collate Latin1_General_100_BIN2 not null, paused bit not null,
  per_second float null, tokens float not null, primary key (scope, name)
);
insert into @controls (scope, name, paused, per_second, tokens)
select c.scope, c.name, c.paused, c.per_second, c.tokens from [$(Schema)].[$(Queue)Controls] c where c.paused = 1;
declare @pauses bit = case when exists (select 1 from @controls) then 1 else 0 end;
if exists (select 1 from @controls c where c.scope = N'queue') return 0;
if @pauses = 0 and exists (
  select 1 from [$(Schema)].[$(Queue)State] r with (forceseek, readpast, rowlock, readcommittedlock) where r.status = 1 and r.visible_at <= @now and (r.reclaimable_at is null or r.reclaimable_at <= @now)
) return 1;
-- a state under any lock is skipped: its message may be locked, too
if @pauses = 1 and exists (select 1 from [$(Schema)].[$(Queue)State] r with (forceseek, updlock, readpast, rowlock, readcommittedlock) where r.status = 1 and r.visible_at <= @now and (r.reclaimable_at is null or r.reclaimable_at <= @now) and (select top (1) 1 from [$(Schema)].[$(Queue)_KeyOf](r.seq) m inner join @controls c on (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source))) is null) return 1;
if exists (
  select 1 from [$(Schema)].[$(Queue)PartitionChanges] c with (readpast, rowlock, readcommittedlock)
  where c.change <> 1 or exists (
    select 1 from [$(Schema)].[$(Queue)PartitionQueue] q with (forceseek, readpast, rowlock, readcommittedlock)
    where q.partition_key = c.partition_key and q.seq <> c.seq
  )
) return 1;
return 0;
go

create or alter procedure [$(Schema)].[$(Queue)_Replay]
  @items nvarchar(max), @ttl_ms float
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @changed table (seq bigint not null primary key, keyed bit null);

begin transaction;
update [$(Schema)].[$(Queue)State]
set status = case when [$(Queue)State].keyed = 1 then 5 else 1 end,
  attempt = 0, crashes = 0, owner = null, locked_until = null, reclaimable_at = null, visible_at = @now,
  expires_at = (select a.later from [$(Schema)].[$(Queue)_After](@now, @ttl_ms) a), died_at = null
output inserted.seq, inserted.keyed into @changed (seq, keyed)
from openjson(@items) with (seq bigint '$') i, [$(Schema)].[$(Queue)State] with (index(1), forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = i.seq and [$(Queue)State].status = 4;

if exists (select 1 from @changed c where c.keyed = 1)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 0 from @changed c
  inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where c.keyed = 1 and m.partition_key is not null order by c.seq;
commit transaction;

select c.seq from @changed c;
go

create or alter procedure [$(Schema)].[$(Queue)_RecordUnhandled]
  @items nvarchar(max)
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @seen table (topic nvarchar(255) collate Latin1_General_100_BIN2 not null primary key, messages bigint not null);

insert into @seen (topic, messages)
select i.topic, i.messages
from openjson(@items) with (topic nvarchar(255), messages bigint) i;

begin transaction;
update [$(Schema)].[$(Queue)Unhandled]
set messages = [$(Queue)Unhandled].messages + s.messages, last_seen_at = @now
from @seen s, [$(Schema)].[$(Queue)Unhandled] with (forceseek, updlock, rowlock, serializable)
where [$(Queue)Unhandled].topic = s.topic;

insert into [$(Schema)].[$(Queue)Unhandled] (topic, messages, last_seen_at)
select s.topic, s.messages, @now
from @seen s
where not exists (select 1 from [$(Schema)].[$(Queue)Unhandled] u with (forceseek, updlock, rowlock, serializable) where u.topic = s.topic);
commit transaction;

declare @before datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, -2592000000) a);
delete from [$(Schema)].[$(Queue)Unhandled]
from [$(Schema)].[$(Queue)Unhandled] with (updlock, readpast, rowlock, readcommittedlock)
where [$(Queue)Unhandled].last_seen_at < @before;
go

create or alter procedure [$(Schema)].[$(Queue)_Unhandled]
  @limit int
as
set nocount, xact_abort on;
if exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)
  set transaction isolation level read uncommitted;

select top (@limit) u.topic, u.messages, u.last_seen_at
from [$(Schema)].[$(Queue)Unhandled] u
order by u.last_seen_at desc, u.topic;
go

create or alter procedure [$(Schema)].[$(Queue)_AddOperation]
  @id uniqueidentifier, @who nvarchar(255), @action nvarchar(20), @filter nvarchar(max)
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
insert into [$(Schema)].[oncebox_operations] (id, started_at, who, action, queue, filter)
values (@id, @now, @who, @action, N'$(Kind):$(Queue)', @filter);
go

create or alter procedure [$(Schema)].[$(Queue)_MoveOperation]
  @id uniqueidentifier, @matched bigint, @done bigint, @last_seq bigint, @ended bit, @who nvarchar(255)
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
update [$(Schema)].[oncebox_operations] with (updlock, rowlock, readcommittedlock)
set matched = @matched, done = @done, last_seq = @last_seq, ended_at = case when @ended = 1 then @now end,
  resumed_by = coalesce(@who, resumed_by), resumed_at = case when @who is null then resumed_at else @now end
where id = @id;
go

create or alter procedure [$(Schema)].[$(Queue)_PurgeOperations]
  @retention_ms float, @limit int
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
delete top (@limit) from [$(Schema)].[oncebox_operations] with (readpast, rowlock, readcommittedlock)
where queue = N'$(Kind):$(Queue)' and ended_at < (select a.later from [$(Schema)].[$(Queue)_After](@now, -@retention_ms) a);

select @@rowcount as deleted;
go

create or alter procedure [$(Schema)].[$(Queue)_Controls]
  @scope nvarchar(10) = null, @name nvarchar(255) = null
as
set nocount, xact_abort on;
if exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)
  set transaction isolation level read uncommitted;

select c.scope, c.name, c.paused, c.per_second, c.who, c.changed_at, (
    select count_big(*) from [$(Schema)].[$(Queue)State] s
    where s.status in (1, 5) and s.locked_until is null
      and (select top (1) 1 from [$(Schema)].[$(Queue)_KeyOf](s.seq) m where (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source))) = 1
  ) as waiting
from [$(Schema)].[$(Queue)Controls] c
where @scope is null or (c.scope = @scope and c.name = @name)
order by c.changed_at, c.scope, c.name;
go

create or alter procedure [$(Schema)].[$(Queue)_PutControl]
  @scope nvarchar(10), @name nvarchar(255), @paused bit, @per_second float, @who nvarchar(255)
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
begin transaction;
update [$(Schema)].[$(Queue)Controls] with (updlock, rowlock, serializable)
set paused = coalesce(@paused, paused), per_second = coalesce(@per_second, per_second), who = @who, changed_at = @now
where scope = @scope and name = @name;

if @@rowcount = 0
  insert into [$(Schema)].[$(Queue)Controls] (scope, name, paused, per_second, refilled_at, who, changed_at)
  values (@scope, @name, coalesce(@paused, 0), @per_second, @now, @who, @now);

exec [$(Schema)].[$(Queue)_Controls] @scope = @scope, @name = @name;
commit transaction;
go

create or alter procedure [$(Schema)].[$(Queue)_EndControl]
  @scope nvarchar(10), @name nvarchar(255), @paused bit, @who nvarchar(255)
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
begin transaction;
update [$(Schema)].[$(Queue)Controls] with (updlock, rowlock, readcommittedlock)
set paused = case when @paused = 1 then 0 else paused end, per_second = case when @paused = 1 then per_second end,
  who = @who, changed_at = @now
where scope = @scope and name = @name and ((@paused = 1 and paused = 1) or (@paused = 0 and per_second is not null));

if @@rowcount = 1
begin
  exec [$(Schema)].[$(Queue)_Controls] @scope = @scope, @name = @name;
  delete from [$(Schema)].[$(Queue)Controls] with (updlock, rowlock, readcommittedlock) where scope = @scope and name = @name and paused = 0 and per_second is null;
end
commit transaction;
go
