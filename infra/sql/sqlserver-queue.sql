-- The functions and procedures that both queues have. sqlserver.sql reads it once for each. Made by npm run render:sql; do not edit.
go

create or alter function [$(Schema)].[$(Queue)_After] (@time datetime2(3), @ms float)
returns table as return
select dateadd(millisecond, cast(cast(round(@ms, 0) as bigint) % 86400000 as int),
  dateadd(day, cast(cast(round(@ms, 0) as bigint) / 86400000 as int), @time)) as later
go

create or alter function [$(Schema)].[$(Queue)_AbandonedFromJson] (@items nvarchar(max))
returns table as return
select cast(a.[key] as int) as position, i.seq as seq, i.delay_ms as delay_ms, i.error as error,
  i.error_group collate Latin1_General_100_BIN2 as error_group, i.attempts as attempts
from openjson(@items) a
cross apply openjson(a.value) with (
  seq bigint, delay_ms float, error nvarchar(max), error_group varchar(16), attempts int
) i
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
  where c.keyed = 1 and m.partition_key is not null
  order by c.seq option (loop join, force order);
commit transaction;

select c.seq as seq from @changed c;
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
  attempt = [$(Queue)State].attempt + coalesce(i.attempts, 1), crashes = 0, owner = null, locked_until = null,
  visible_at = (select a.later from [$(Schema)].[$(Queue)_After](@now, coalesce(i.delay_ms,
    case when ([$(Queue)State].attempt + 1) < @capped_from then @base_ms * power(@factor, ([$(Queue)State].attempt + 1)) else @max_ms end
    + @jitter_ms * (([$(Queue)State].seq % 1000000 * 618034 + @random) % 1000000) / 1000000)) a),
  last_error = coalesce(i.error, [$(Queue)State].last_error),
  error_group = case when i.error is null then [$(Queue)State].error_group else i.error_group end,
  last_attempt_at = case when i.attempts = 0 then [$(Queue)State].last_attempt_at else @now end,
  died_at = case when i.attempts is null and [$(Queue)State].attempt + 1 >= @max_attempts then @now else [$(Queue)State].died_at end
output inserted.seq, inserted.status, inserted.keyed, inserted.attempt into @changed (seq, status, keyed, attempt)
from [$(Schema)].[$(Queue)_AbandonedFromJson](@items) i, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = i.seq and [$(Queue)State].owner = @owner and [$(Queue)State].status = 2 option (loop join, force order);

insert into [$(Schema)].[$(Queue)Attempts] (seq, attempt, ended_at, worker, error)
select c.seq, c.attempt, @now, @owner, i.error
from @changed c
inner join [$(Schema)].[$(Queue)_AbandonedFromJson](@items) i on i.seq = c.seq
where i.attempts is null;

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
  where @blocks = 0 and c.keyed = 1 and c.status = 4 and m.partition_key is not null
  order by c.seq option (loop join, force order);
commit transaction;

select c.seq as seq, cast(case when c.status = 4 then 1 else 0 end as bit) as dead from @changed c;
go

create or alter procedure [$(Schema)].[$(Queue)_Fail]
  @now datetime2(3) = null, @owner uniqueidentifier, @items nvarchar(max), @error nvarchar(max),
  @error_group varchar(16), @blocks bit
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @changed table (seq bigint not null primary key, keyed bit null, attempt int not null);

begin transaction;
update [$(Schema)].[$(Queue)State]
set status = 4, attempt = [$(Queue)State].attempt + 1, owner = null, locked_until = null, last_error = @error,
  error_group = @error_group, last_attempt_at = @now, died_at = @now
output inserted.seq, inserted.keyed, inserted.attempt into @changed (seq, keyed, attempt)
from openjson(@items) with (seq bigint '$') i, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = i.seq and [$(Queue)State].owner = @owner and [$(Queue)State].status = 2 option (loop join, force order);

insert into [$(Schema)].[$(Queue)Attempts] (seq, attempt, ended_at, worker, error)
select c.seq, c.attempt, @now, @owner, @error
from @changed c;

delete from [$(Schema)].[$(Queue)Attempts]
from @changed c, [$(Schema)].[$(Queue)Attempts] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Attempts].seq = c.seq and [$(Queue)Attempts].number <= (
  select x.number from [$(Schema)].[$(Queue)Attempts] x with (forceseek, readcommittedlock) where x.seq = c.seq
  order by x.number desc offset 50 rows fetch next 1 row only
) option (loop join, force order);

if exists (select 1 from @changed c where @blocks = 0 and c.keyed = 1)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 1 from @changed c
  inner join [$(Schema)].[$(Queue)] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where @blocks = 0 and c.keyed = 1 and m.partition_key is not null
  order by c.seq option (loop join, force order);
commit transaction;

select c.seq as seq from @changed c;
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

select c.seq as seq from @changed c;
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

select c.seq as seq from @changed c;
go

create or alter procedure [$(Schema)].[$(Queue)_PurgeDead]
  @now datetime2(3) = null, @limit int, @retention_ms float, @after_seq bigint
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @before datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, -@retention_ms) a);
declare @last_seq bigint, @more bit = 0;
declare @scanned table (seq bigint not null primary key, ended_at datetime2(3) null, keyed bit null);
declare @old table (seq bigint not null primary key);
declare @gone table (seq bigint not null primary key);

insert into @scanned (seq, ended_at, keyed)
select top (@limit) s.seq, s.died_at, s.keyed
from [$(Schema)].[$(Queue)State] s with (index([$(Queue)_Dead]), forceseek, readpast, rowlock, readcommittedlock)
where s.status = 4 and s.seq > @after_seq
order by s.seq;

if @@rowcount = @limit set @more = 1;

select @last_seq = max(w.seq) from @scanned w;

if not exists (select 1 from [$(Schema)].[$(Queue)] m with (forceseek, readpast, rowlock, readcommittedlock) where m.seq = @last_seq and m.$(BornAt) < @before)
  set @more = 0;

if exists (select 1 from @scanned w where w.keyed = 1)
begin
  declare @kept table (seq bigint not null);

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
where w.ended_at < @before and s.status = 4 and (s.locked_until is null or s.locked_until <= @now) and s.died_at < @before and m.$(SeenAt) < @before option (loop join, force order);

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
  where c.keyed = 1 and m.partition_key is not null
  order by c.seq option (loop join, force order);

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

select g.seq as seq from @gone g;
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

select c.id as id, c.scope as scope, c.name as name, c.paused as paused, c.per_second as per_second, c.who as who,
  c.changed_at as changed_at, (
    select count_big(*) from [$(Schema)].[$(Queue)State] s with (index([$(Queue)_Parked]), forceseek)
    where s.status = 7 and s.parked_by = c.id
  ) as parked
from [$(Schema)].[$(Queue)Controls] c
where @scope is null or (c.scope = @scope and c.name = @name)
order by c.id;
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
