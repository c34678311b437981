-- sqlserver: the oncebox schema, for sqlcmd. Made by npm run render:sql; do not edit anything but the values of :setvar.
-- Run it in the folder infra/sql. It may be run again: what is there stays, and procedures are replaced.
--   sqlcmd -S "$SQL_SERVER" -d "$SQL_DATABASE" --authentication-method ActiveDirectoryDefault -i sqlserver.sql
-- In SSMS, turn SQLCMD mode on and give the whole path of this folder as Folder, without spaces. Other clients run what
-- oncebox migrate --print --all prints: the same schema as plain T-SQL.
-- For other names, change Schema here and the two lines of Queue below; sqlcmd's -v does not change them. A name with a
-- space stands in double quotes. One with a quote or a bracket needs oncebox migrate. To leave a queue out, delete its part.
:setvar Folder .
:setvar Schema infra
:on error exit
go

if N'$(Schema)' = N'$' + N'(Schema)'
begin
  raiserror(N'Run this script with sqlcmd, or in SQLCMD mode.', 16, 1);
  set noexec on;
end
go

set ansi_nulls, ansi_padding, ansi_warnings, arithabort, concat_null_yields_null, quoted_identifier on;
set numeric_roundabort off;
set xact_abort on
go

if schema_id(N'$(Schema)') is null
  exec(N'create schema [$(Schema)]')
go

if object_id(N'[$(Schema)].[oncebox_migrations]', N'U') is null
  create table [$(Schema)].[oncebox_migrations] (
    queue nvarchar(100) collate Latin1_General_100_BIN2 not null,
    number int not null,
    name nvarchar(100) not null,
    applied_at datetime2(3) not null constraint [oncebox_migrations_AppliedAt] default sysutcdatetime(),
    constraint [oncebox_migrations_PK] primary key clustered (queue, number)
  )
go

if object_id(N'[$(Schema)].[oncebox_operations]', N'U') is null
  create table [$(Schema)].[oncebox_operations] (
    id uniqueidentifier not null,
    started_at datetime2(3) not null,
    who nvarchar(255) not null,
    action nvarchar(20) not null,
    queue nvarchar(100) collate Latin1_General_100_BIN2 not null,
    filter nvarchar(max) not null,
    matched bigint not null constraint [oncebox_operations_Matched] default 0,
    done bigint not null constraint [oncebox_operations_Done] default 0,
    last_seq bigint not null constraint [oncebox_operations_LastSeq] default 0,
    ended_at datetime2(3) null,
    -- who went on with it last, after an interruption
    resumed_by nvarchar(255) null,
    resumed_at datetime2(3) null,
    constraint [oncebox_operations_PK] primary key clustered (id)
  )
go

-- The inbox
:setvar Queue Inbox
:setvar Kind inbox
:setvar BornAt first_seen_at
:setvar SeenAt last_seen_at
go

if not exists (
  select 1 from [$(Schema)].[oncebox_migrations] where queue = N'inbox:$(Queue)' and number = 1
)
begin
  begin transaction;

  create table [$(Schema)].[$(Queue)] (
    seq bigint identity(1, 1) not null,
    source nvarchar(255) collate Latin1_General_100_BIN2 not null,
    message_id nvarchar(255) collate Latin1_General_100_BIN2 not null,
    topic nvarchar(255) collate Latin1_General_100_BIN2 not null,
    partition_key nvarchar(255) collate Latin1_General_100_BIN2 null,
    payload nvarchar(max) not null,
    hash varbinary(max) null,
    correlation_id nvarchar(255) collate Latin1_General_100_BIN2 null,
    headers nvarchar(max) null,
    due_at datetime2(3) null,
    expires_at datetime2(3) null,
    first_seen_at datetime2(3) not null,
    last_seen_at datetime2(3) not null,
    deliveries int not null constraint [$(Queue)_Deliveries] default 1,
    -- the hash of the last delivery differs from the one before it
    content_changed bit not null constraint [$(Queue)_ContentChanged] default 0,
    constraint [$(Queue)_PK] primary key clustered (seq),
    constraint [$(Queue)_Key] unique nonclustered (source, message_id)
  );
  create table [$(Schema)].[$(Queue)State] (
    seq bigint not null,
    visible_at datetime2(3) not null,
    locked_until datetime2(3) null,
    expires_at datetime2(3) null,
    processed_at datetime2(3) null,
    owner uniqueidentifier null,
    attempt int not null constraint [$(Queue)State_Attempt] default 0,
    status tinyint not null,
    crashes int not null constraint [$(Queue)State_Crashes] default 0,
    -- 1 for a message with a partition key, else null
    keyed bit null,
    processed_by nvarchar(100) null,
    -- not of a done message: there it is processed_at
    last_attempt_at datetime2(3) null,
    -- of a dead message
    died_at datetime2(3) null,
    -- the same for errors that differ in ids and numbers only
    error_group varchar(16) collate Latin1_General_100_BIN2 null,
    last_error nvarchar(max) null,
    -- since when it was due at its last claim
    due_since datetime2(3) null,
    -- the control that has parked the message
    parked_by bigint null,
    -- the limits that have let it pass since it was last claimed, such as ',3,9,'
    passes varchar(max) null,
    -- of a done message that an operator has ended: archived or replaced
    ended_as varchar(10) collate Latin1_General_100_BIN2 null,
    constraint [$(Queue)State_PK] primary key clustered (seq)
  );
  create index [$(Queue)_Ready] on [$(Schema)].[$(Queue)State] (visible_at, seq) where status = 1;
  create index [$(Queue)_Held] on [$(Schema)].[$(Queue)State] (visible_at, seq) include (locked_until, crashes) where status = 2;
  create index [$(Queue)_Dead] on [$(Schema)].[$(Queue)State] (seq) include (expires_at, locked_until, error_group, died_at, keyed) where status = 4;
  create index [$(Queue)_EndedAs] on [$(Schema)].[$(Queue)State] (seq) include (ended_as) where ended_as is not null;
  create index [$(Queue)_Leased] on [$(Schema)].[$(Queue)State] (visible_at, seq) include (locked_until) where status = 6;
  create index [$(Queue)_Expiry] on [$(Schema)].[$(Queue)State] (expires_at) include (status, locked_until) where expires_at is not null and status in (1, 2, 5, 7);
  create table [$(Schema)].[$(Queue)PartitionQueue] (
    position bigint identity(1, 1) not null,
    partition_key nvarchar(255) collate Latin1_General_100_BIN2 not null,
    seq bigint not null,
    constraint [$(Queue)PartitionQueue_PK] primary key clustered (partition_key, position),
    constraint [$(Queue)PartitionQueue_Seq] unique nonclustered (seq)
  );
  create table [$(Schema)].[$(Queue)PartitionChanges] (
    number bigint identity(1, 1) not null,
    seq bigint not null,
    partition_key nvarchar(255) collate Latin1_General_100_BIN2 not null,
    -- 0 joins, 1 leaves, 2 the head is to be checked
    change tinyint not null,
    constraint [$(Queue)PartitionChanges_PK] primary key clustered (number)
  );
  create table [$(Schema)].[$(Queue)Attempts] (
    seq bigint not null,
    number bigint identity(1, 1) not null,
    attempt int not null,
    ended_at datetime2(3) not null,
    worker uniqueidentifier null,
    error nvarchar(max) null,
    constraint [$(Queue)Attempts_PK] primary key clustered (seq, number)
  );
  create table [$(Schema)].[$(Queue)Archive] (
    seq bigint not null,
    source nvarchar(255) collate Latin1_General_100_BIN2 not null,
    message_id nvarchar(255) collate Latin1_General_100_BIN2 not null,
    topic nvarchar(255) collate Latin1_General_100_BIN2 not null,
    partition_key nvarchar(255) collate Latin1_General_100_BIN2 null,
    payload nvarchar(max) not null,
    correlation_id nvarchar(255) collate Latin1_General_100_BIN2 null,
    headers nvarchar(max) null,
    enqueued_at datetime2(3) not null,
    attempt int not null,
    last_error nvarchar(max) null,
    error_group varchar(16) collate Latin1_General_100_BIN2 null,
    -- the failed attempts, as JSON
    attempts nvarchar(max) not null,
    died_at datetime2(3) not null,
    archived_at datetime2(3) not null,
    archived_by nvarchar(255) not null,
    constraint [$(Queue)Archive_PK] primary key clustered (seq)
  );
:r $(Folder)/sqlserver-tables.sql
  insert into [$(Schema)].[oncebox_migrations] (queue, number, name) values (N'inbox:$(Queue)', 1, N'inbox');

  commit transaction;
end
go

create or alter view [$(Schema)].[$(Queue)Messages] as
select
  m.source as Source,
  m.message_id as MessageId,
  m.topic as Topic,
  m.payload as Payload,
  m.hash as Hash,
  m.first_seen_at as FirstSeenUtc,
  m.last_seen_at as LastSeenUtc,
  case
    when s.status = 3 then coalesce(s.ended_as, 'done')
    when (s.status = 0 or (s.status = 6 and s.locked_until is null)) then 'seen'
    when s.status = 4 then 'dead'
    when s.locked_until is not null then 'running'
    when exists (select 1 from [$(Schema)].[$(Queue)Controls] c where c.paused = 1 and (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source))) then 'paused'
    when s.attempt > 0 then 'retrying'
    else 'waiting'
  end as Status,
  case
    when s.status = 3 then 'Done'
    when (s.status = 0 or (s.status = 6 and s.locked_until is null)) then 'Seen'
    when s.status = 4 then 'Dead'
    else 'Processing'
  end as State,
  s.locked_until as LockedUntil,
  s.owner as OwnerToken,
  s.attempt as Attempt,
  s.last_error as LastError,
  s.visible_at as NextAttemptAt,
  m.due_at as DueTimeUtc,
  s.expires_at as ExpiresAt,
  m.correlation_id as CorrelationId,
  s.processed_at as ProcessedAt,
  m.deliveries as Deliveries,
  m.partition_key as PartitionKey,
  coalesce(s.processed_at, s.last_attempt_at) as LastAttemptAt
from [$(Schema)].[$(Queue)] m
inner join [$(Schema)].[$(Queue)State] s on s.seq = m.seq
go

create or alter function [$(Schema)].[$(Queue)_KeysFromJson] (@items nvarchar(max))
returns table as return
select cast(a.[key] as int) as position, i.source collate Latin1_General_100_BIN2 as source,
  i.message_id collate Latin1_General_100_BIN2 as message_id
from openjson(@items) a
cross apply openjson(a.value) with (
  source nvarchar(255), message_id nvarchar(255)
) i
go

create or alter function [$(Schema)].[$(Queue)_MessagesFromJson] (@items nvarchar(max))
returns table as return
select cast(a.[key] as int) as position, i.source collate Latin1_General_100_BIN2 as source,
  i.message_id collate Latin1_General_100_BIN2 as message_id, i.topic collate Latin1_General_100_BIN2 as topic,
  i.payload as payload, i.correlation_id as correlation_id, i.headers as headers, i.due_at as due_at,
  i.expires_at as expires_at, i.partition_key collate Latin1_General_100_BIN2 as partition_key,
  convert(varbinary(max), i.hash, 2) as hash, i.error as error,
  i.error_group collate Latin1_General_100_BIN2 as error_group
from openjson(@items) a
cross apply openjson(a.value) with (
  source nvarchar(255), message_id nvarchar(255), topic nvarchar(255), payload nvarchar(max),
  correlation_id nvarchar(255), headers nvarchar(max), due_at datetime2(3), expires_at datetime2(3),
  partition_key nvarchar(255), hash nvarchar(max), error nvarchar(max), error_group varchar(16)
) i
go

:r $(Folder)/sqlserver-queue.sql

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
  seq bigint not null primary key, attempt int not null, expires_at datetime2(3) null, visible_at datetime2(3) not null,
  locked_until datetime2(3) null, owner uniqueidentifier null, crashes int not null, status tinyint not null, keyed bit null
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
output inserted.seq, inserted.attempt, inserted.expires_at, inserted.visible_at, inserted.locked_until, inserted.owner,
  inserted.crashes, inserted.status, inserted.keyed
  into @claimed (seq, attempt, expires_at, visible_at, locked_until, owner, crashes, status, keyed)
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
  where @blocks = 0 and c.keyed = 1 and c.status = 4 and m.partition_key is not null
  order by c.seq option (loop join, force order);

if exists (select 1 from [$(Schema)].[$(Queue)Controls] k) set @verdict = 'controlled';

-- read before the commit: a claim whose rows cannot be returned is undone. No other transaction can have changed these
-- messages and not ended yet, because it would have locked their states first.
if @verdict = 'controlled' and not exists (select 1 from @claimed)
  select cast(null as bigint) as seq, @verdict as verdict;
else
  select c.seq as seq, c.attempt as attempt, c.expires_at as expires_at, c.visible_at as next_attempt_at,
    c.locked_until as locked_until, c.owner as owner, c.crashes as crashes, c.status as status,
    s.last_error as last_error, s.last_attempt_at as last_attempt_at, s.processed_at as processed_at,
    s.processed_by as processed_by, m.topic as topic, m.payload as payload, m.partition_key as partition_key,
    m.headers as headers, m.correlation_id as correlation_id, m.due_at as due_at, m.source as source,
    m.message_id as message_id, m.hash as hash, m.first_seen_at as first_seen_at, m.last_seen_at as last_seen_at,
    m.deliveries as deliveries,
    case when c.status = 2 then @verdict when c.expires_at <= @now then 'expired' else 'exhausted' end as verdict
  from @claimed c
  inner join [$(Schema)].[$(Queue)State] s with (forceseek) on s.seq = c.seq
  inner join [$(Schema)].[$(Queue)] m with (forceseek) on m.seq = c.seq
  order by c.seq option (loop join, force order);
commit transaction;
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
  where @blocks = 0 and c.keyed = 1 and c.status = 4 and m.partition_key is not null
  order by c.seq option (loop join, force order);

if @blocks = 0 and exists (select 1 from [$(Schema)].[$(Queue)PartitionQueue] q with (readpast, rowlock, readcommittedlock))
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select q.seq, q.partition_key, 1
  from [$(Schema)].[$(Queue)State] s with (index([$(Queue)_Dead]), readpast, rowlock, readcommittedlock)
  inner join [$(Schema)].[$(Queue)PartitionQueue] q with (index([$(Queue)PartitionQueue_Seq]), forceseek, readpast, rowlock, readcommittedlock) on q.seq = s.seq
  where s.status = 4 and s.keyed = 1 option (loop join, force order);
commit transaction;

if exists (select 1 from [$(Schema)].[$(Queue)PartitionChanges] c with (readpast, rowlock, readcommittedlock))
  exec [$(Schema)].[$(Queue)_ApplyPartitionChanges];

select r.seq as seq, m.source as source, m.message_id as message_id,
  case when r.status <> 4 then 'reaped' when r.expires_at <= @now then 'expired' else 'exhausted' end as verdict
from @reaped r
inner join [$(Schema)].[$(Queue)] m with (forceseek) on m.seq = r.seq option (loop join, force order);
go

create or alter procedure [$(Schema)].[$(Queue)_Purge]
  @now datetime2(3) = null, @limit int, @retention_ms float, @after_seq bigint, @source nvarchar(255)
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @before datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, -@retention_ms) a);
declare @last_seq bigint, @more bit = 0;
declare @scanned table (seq bigint not null primary key, ended_at datetime2(3) null, keyed bit null);
declare @old table (seq bigint not null primary key);
declare @gone table (seq bigint not null primary key);

insert into @scanned (seq, ended_at, keyed)
select top (@limit) s.seq, case when s.status = 3 then s.processed_at end, s.keyed
from [$(Schema)].[$(Queue)State] s with (forceseek, readpast, rowlock, readcommittedlock)
where s.seq > @after_seq
order by s.seq;

if @@rowcount = @limit set @more = 1;

select @last_seq = max(w.seq) from @scanned w;

if not exists (select 1 from [$(Schema)].[$(Queue)] m with (forceseek, readpast, rowlock, readcommittedlock) where m.seq = @last_seq and m.first_seen_at < @before)
  set @more = 0;

begin transaction;
insert into @old (seq)
select m.seq
from @scanned w
inner join [$(Schema)].[$(Queue)] m with (forceseek, updlock, readpast, rowlock, readcommittedlock) on m.seq = w.seq
inner join [$(Schema)].[$(Queue)State] s with (forceseek, updlock, readpast, rowlock, readcommittedlock) on s.seq = m.seq
where w.ended_at < @before and s.status = 3 and s.processed_at < @before and m.last_seen_at < @before and (@source is null or m.source = @source) option (loop join, force order);

delete from [$(Schema)].[$(Queue)]
output deleted.seq into @gone (seq)
from @old o, [$(Schema)].[$(Queue)] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)].seq = o.seq and [$(Queue)].last_seen_at < @before and (@source is null or [$(Queue)].source = @source) option (loop join, force order);

delete from [$(Schema)].[$(Queue)State]
from @gone g, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = g.seq option (loop join, force order);

delete from [$(Schema)].[$(Queue)Attempts]
from @gone g, [$(Schema)].[$(Queue)Attempts] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Attempts].seq = g.seq option (loop join, force order);
commit transaction;

select count(*) as deleted, @last_seq as last_seq, @more as more from @gone g;
go

create or alter procedure [$(Schema)].[$(Queue)_Resolve]
  @items nvarchar(max)
as
set nocount, xact_abort on;
select m.seq as seq, m.source as source, m.message_id as message_id
from [$(Schema)].[$(Queue)_KeysFromJson](@items) k
inner join [$(Schema)].[$(Queue)] m with (index([$(Queue)_Key]), forceseek) on m.source = k.source and m.message_id = k.message_id option (loop join, force order);
go

create or alter procedure [$(Schema)].[$(Queue)_Get]
  @source nvarchar(255), @message_id nvarchar(255)
as
set nocount, xact_abort on;
if @@trancount = 0 and exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)
  set transaction isolation level read uncommitted;

select s.seq as seq, s.attempt as attempt, s.expires_at as expires_at, s.visible_at as next_attempt_at,
  s.locked_until as locked_until, s.owner as owner, s.crashes as crashes, s.status as status, s.last_error as last_error,
  s.last_attempt_at as last_attempt_at, s.processed_at as processed_at, s.processed_by as processed_by,
  s.died_at as died_at, s.error_group as error_group, s.ended_as as ended_as, m.topic as topic, m.payload as payload,
  m.partition_key as partition_key, m.headers as headers, m.correlation_id as correlation_id, m.due_at as due_at,
  m.source as source, m.message_id as message_id, m.hash as hash, m.first_seen_at as first_seen_at,
  m.last_seen_at as last_seen_at, m.deliveries as deliveries
from [$(Schema)].[$(Queue)] m with (index([$(Queue)_Key]), forceseek)
inner join [$(Schema)].[$(Queue)State] s with (forceseek) on s.seq = m.seq
where m.source = @source and m.message_id = @message_id option (loop join, force order);
go

create or alter procedure [$(Schema)].[$(Queue)_Attempts]
  @source nvarchar(255), @message_id nvarchar(255)
as
set nocount, xact_abort on;
if @@trancount = 0 and exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)
  set transaction isolation level read uncommitted;

select a.attempt as attempt, a.ended_at as ended_at, a.worker as worker, a.error as error
from [$(Schema)].[$(Queue)] m with (index([$(Queue)_Key]), forceseek)
inner join [$(Schema)].[$(Queue)Attempts] a with (forceseek) on a.seq = m.seq
where m.source = @source and m.message_id = @message_id
order by a.number option (loop join, force order);
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

select top (@limit) s.seq as seq, s.attempt as attempt, s.expires_at as expires_at, s.visible_at as next_attempt_at,
  s.locked_until as locked_until, s.owner as owner, s.crashes as crashes, s.status as status, s.last_error as last_error,
  s.last_attempt_at as last_attempt_at, s.processed_at as processed_at, s.processed_by as processed_by,
  s.died_at as died_at, s.error_group as error_group, s.ended_as as ended_as, m.topic as topic, m.payload as payload,
  m.partition_key as partition_key, m.headers as headers, m.correlation_id as correlation_id, m.due_at as due_at,
  m.source as source, m.message_id as message_id, m.hash as hash, m.first_seen_at as first_seen_at,
  m.last_seen_at as last_seen_at, m.deliveries as deliveries
from [$(Schema)].[$(Queue)State] s
inner join [$(Schema)].[$(Queue)] m on m.seq = s.seq
where s.seq > @after_seq
  and (@status is null or (s.status in (@status, @status_2, @status_3, @status_4, @status_5) and (s.status <> 6 or case when s.locked_until is null then 0 else 2 end in (@status, @status_2, @status_3, @status_4, @status_5))))
  and (@ended_as is null or s.ended_as = @ended_as)
  and (@leased is null or case when s.locked_until is not null then 1 else 0 end = @leased)
  and (@topic is null or m.topic = @topic)
  and (@source is null or m.source = @source)
  and (@error is null or charindex(@error collate Latin1_General_100_BIN2, s.last_error collate Latin1_General_100_BIN2) > 0)
  and (@error_group is null or coalesce(s.error_group, '') = @error_group)
  and (@until is null or case when s.status = 4 then s.died_at else m.first_seen_at end <= @until)
  and (@since is null or case when s.status = 4 then s.died_at else m.first_seen_at end >= @since)
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
select s.status as status, cast(case when s.locked_until is not null then 1 else 0 end as bit) as leased, cast(case when s.attempt > 0 then 1 else 0 end as bit) as retried,
  h.held as held, count_big(*) as [count], sum(cast(case when s.visible_at <= @now and s.status in (1, 2) then 1 else 0 end as bigint)) as due,
  datediff_big(millisecond, min(case when s.visible_at <= @now and s.status in (1, 2) then s.visible_at end), @now) as oldest_due_ms,
  sum(cast(case when s.status = 4 and s.expires_at <= @now then 1 else 0 end as bigint)) as expired, @paused as paused, s.ended_as as ended_as
from [$(Schema)].[$(Queue)State] s
cross apply (
  select cast(case
    when @pauses = 0 or s.status not in (1, 2, 5, 7) then 0
    when exists (
      select 1 from [$(Schema)].[$(Queue)] m inner join [$(Schema)].[$(Queue)Controls] c on (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source))
      where m.seq = s.seq and c.paused = 1 and c.scope <> N'queue'
    ) then 1
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
    where s.status = 1 and s.visible_at <= @now and (@pauses = 0 or not exists (
      select 1 from [$(Schema)].[$(Queue)] m inner join [$(Schema)].[$(Queue)Controls] c on (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source))
      where m.seq = s.seq and c.paused = 1 and c.scope <> N'queue'
    ))
    order by s.visible_at
  ) as visible_at
  union all
  select (
    select top (1) s.visible_at
    from [$(Schema)].[$(Queue)State] s with (index([$(Queue)_Held]))
    where s.status = 2 and s.visible_at <= @now and (@pauses = 0 or not exists (
      select 1 from [$(Schema)].[$(Queue)] m inner join [$(Schema)].[$(Queue)Controls] c on (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source))
      where m.seq = s.seq and c.paused = 1 and c.scope <> N'queue'
    ))
    order by s.visible_at
  ) as visible_at
) d
where not exists (
  select 1 from [$(Schema)].[$(Queue)Controls] c with (index([$(Queue)Controls_Key]), forceseek)
  where c.scope = N'queue' and c.name = N'' and c.paused = 1
);
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
  where c.keyed = 1 and m.partition_key is not null
  order by c.seq option (loop join, force order);
commit transaction;

select c.seq as seq from @changed c;
go

create or alter procedure [$(Schema)].[$(Queue)_Archive]
  @now datetime2(3) = null, @items nvarchar(max), @who nvarchar(255), @ended_as varchar(10)
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @gone table (seq bigint not null primary key, keyed bit null);

begin transaction;
insert into @gone (seq, keyed)
select m.seq, s.keyed
from openjson(@items) with (seq bigint '$') i
inner join [$(Schema)].[$(Queue)] m with (forceseek, updlock, rowlock, readcommittedlock) on m.seq = i.seq
inner join [$(Schema)].[$(Queue)State] s with (forceseek, updlock, rowlock, readcommittedlock) on s.seq = m.seq
where s.status = 4 option (loop join, force order);

insert into [$(Schema)].[$(Queue)Archive] (seq, source, message_id, topic, partition_key, payload, correlation_id, headers,
  enqueued_at, attempt, last_error, error_group, attempts, died_at, archived_at, archived_by)
select m.seq, m.source, m.message_id, m.topic, m.partition_key, m.payload, m.correlation_id, m.headers,
  m.first_seen_at, s.attempt, s.last_error, s.error_group, coalesce((
    select a.attempt as attempt, datediff_big(millisecond, '1970-01-01', a.ended_at) as endedAt, lower(a.worker) as worker, a.error as error
    from [$(Schema)].[$(Queue)Attempts] a with (forceseek)
    where a.seq = g.seq
    order by a.number
    for json path, include_null_values
  ), N'[]'), s.died_at, @now, @who
from @gone g
inner join [$(Schema)].[$(Queue)] m with (forceseek) on m.seq = g.seq
inner join [$(Schema)].[$(Queue)State] s with (forceseek) on s.seq = g.seq
option (loop join, force order);

if exists (select 1 from @gone c where c.keyed = 1)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 1 from @gone c
  inner join [$(Schema)].[$(Queue)] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where c.keyed = 1 and m.partition_key is not null
  order by c.seq option (loop join, force order);

update [$(Schema)].[$(Queue)]
set payload = N'', headers = null
from @gone g, [$(Schema)].[$(Queue)] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)].seq = g.seq option (loop join, force order);

update [$(Schema)].[$(Queue)State]
set status = 3, ended_as = @ended_as, processed_at = @now, died_at = null
from @gone g, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = g.seq option (loop join, force order);

delete from [$(Schema)].[$(Queue)Attempts]
from @gone g, [$(Schema)].[$(Queue)Attempts] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Attempts].seq = g.seq option (loop join, force order);
commit transaction;

select g.seq as seq from @gone g;
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
  select m.seq, (
      select top (1) c.id
      from @controls c
      where (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source)) and (c.paused = 1 or (
        c.per_second is not null and charindex(',' + cast(c.id as varchar(20)) + ',', coalesce(o.passes, '')) = 0
      ))
      order by c.paused desc, c.id
    ) as control
  from @owned o
  inner join [$(Schema)].[$(Queue)] m with (forceseek) on m.seq = o.seq
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

create or alter procedure [$(Schema)].[$(Queue)_TryBegin]
  @given_now datetime2(3) = null, @source nvarchar(255), @message_id nvarchar(255), @owner uniqueidentifier,
  @lease_ms float, @headers nvarchar(max)
as
set nocount, xact_abort on;
declare @now datetime2(3), @seq bigint, @first_seen_at datetime2(3), @status tinyint, @holder uniqueidentifier, @locked_until datetime2(3);
declare @outermost bit = case when @@trancount = 0 then 1 else 0 end;
declare @rounds int = 0;
declare @added table (seq bigint not null primary key);

while @seq is null
begin
  if @outermost = 1 and @@trancount = 0 begin transaction;

  -- a column that is not in the index: the lookup locks the row, too
  select @seq = m.seq, @first_seen_at = m.first_seen_at
  from [$(Schema)].[$(Queue)] m with (index([$(Queue)_Key]), forceseek, updlock, rowlock, readcommittedlock)
  where m.source = @source and m.message_id = @message_id;

  if @seq is null
  begin
    set @now = coalesce(@given_now, sysutcdatetime());

    begin try
      if @outermost = 0 set xact_abort off;

      insert into [$(Schema)].[$(Queue)] (source, message_id, topic, payload, headers, first_seen_at, last_seen_at, deliveries, content_changed)
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

set @now = coalesce(@given_now, sysutcdatetime());

if @first_seen_at is null
begin
  set @status = 6;
  set @holder = @owner;
  set @locked_until = (select a.later from [$(Schema)].[$(Queue)_After](@now, @lease_ms) a);

  insert into [$(Schema)].[$(Queue)State] (seq, status, visible_at, locked_until, owner, attempt)
  values (@seq, 6, @now, @locked_until, @owner, 1);
end
else
begin
  declare @takes bit = 0;

  select @status = s.status from [$(Schema)].[$(Queue)State] s with (forceseek, updlock, rowlock, readcommittedlock) where s.seq = @seq;

  set @now = coalesce(@given_now, sysutcdatetime());

  update [$(Schema)].[$(Queue)State] with (updlock, rowlock, readcommittedlock)
  set status = 6, visible_at = @now, locked_until = (select a.later from [$(Schema)].[$(Queue)_After](@now, @lease_ms) a), owner = @owner, attempt = attempt + 1
  where seq = @seq and (status = 0 or ([$(Queue)State].status = 6 and ([$(Queue)State].locked_until is null or [$(Queue)State].locked_until <= @now)));

  if @@rowcount = 1 set @takes = 1;

  select @status = s.status, @holder = s.owner, @locked_until = s.locked_until from [$(Schema)].[$(Queue)State] s with (forceseek) where s.seq = @seq;

  update [$(Schema)].[$(Queue)] with (updlock, rowlock, readcommittedlock)
  set last_seen_at = @now, headers = case when @takes = 1 then @headers else headers end
  where seq = @seq;
end

if @outermost = 1 commit transaction;

select @status as status, cast(case when @status = 6 and @holder = @owner then 1 else 0 end as bit) as mine, @locked_until as locked_until;
go

create or alter procedure [$(Schema)].[$(Queue)_ChangeKey]
  @given_now datetime2(3) = null, @change varchar(10), @source nvarchar(255), @message_id nvarchar(255),
  @owner uniqueidentifier, @lease_ms float = null
as
set nocount, xact_abort on;
declare @now datetime2(3), @seq bigint;
declare @changed table (seq bigint not null primary key, locked_until datetime2(3) null);

select @seq = m.seq
from [$(Schema)].[$(Queue)] m with (index([$(Queue)_Key]), forceseek, rowlock, readcommittedlock)
where m.source = @source and m.message_id = @message_id;

begin transaction;
select @seq = s.seq from [$(Schema)].[$(Queue)State] s with (forceseek, updlock, rowlock, readcommittedlock) where s.seq = @seq;

set @now = coalesce(@given_now, sysutcdatetime());

update [$(Schema)].[$(Queue)State] with (updlock, rowlock, readcommittedlock)
set owner = case when @change = 'renew' then owner end,
  locked_until = case when @change = 'renew' then (select a.later from [$(Schema)].[$(Queue)_After](@now, @lease_ms) a) end,
  visible_at = case when @change = 'release' then @now else visible_at end,
  status = case when @change = 'finish' then 3 else status end,
  processed_at = case when @change = 'finish' then coalesce(processed_at, @now) else processed_at end,
  processed_by = case when @change = 'finish' then lower(convert(nvarchar(36), @owner)) else processed_by end
output inserted.seq, inserted.locked_until into @changed (seq, locked_until)
where seq = @seq and (([$(Queue)State].status = 6 and [$(Queue)State].owner = @owner and [$(Queue)State].locked_until > @now)
  or (@change = 'finish' and [$(Queue)State].status = 3 and [$(Queue)State].processed_by = lower(convert(nvarchar(36), @owner))));
commit transaction;

select c.locked_until as locked_until from @changed c;
go

create or alter procedure [$(Schema)].[$(Queue)_InspectKey]
  @now datetime2(3) = null, @source nvarchar(255), @message_id nvarchar(255)
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
select s.status as status, cast(case when s.locked_until > @now then 1 else 0 end as bit) as live, s.attempt as attempt,
  m.first_seen_at as first_seen_at, m.last_seen_at as last_seen_at, s.locked_until as locked_until, m.headers as headers
from [$(Schema)].[$(Queue)] m with (index([$(Queue)_Key]), forceseek)
inner join [$(Schema)].[$(Queue)State] s with (forceseek) on s.seq = m.seq
where m.source = @source and m.message_id = @message_id option (loop join, force order);
go

create or alter procedure [$(Schema)].[$(Queue)_PurgeKeys]
  @now datetime2(3) = null, @source nvarchar(255), @retention_ms float, @limit int
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @before datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, -@retention_ms) a);
declare @old table (seq bigint not null primary key, message_id nvarchar(255) collate Latin1_General_100_BIN2 not null);
declare @locked table (seq bigint not null primary key);
declare @gone table (seq bigint not null primary key);

insert into @old (seq, message_id)
select top (@limit) r.seq, m.message_id
from [$(Schema)].[$(Queue)State] r with (index([$(Queue)_Leased]), readpast, rowlock, readcommittedlock)
inner join [$(Schema)].[$(Queue)] m with (forceseek, readpast, rowlock, readcommittedlock) on m.seq = r.seq
where r.status = 6 and r.visible_at < @before
    and (r.locked_until is null or r.locked_until < @before)
  and m.source = @source and m.last_seen_at < @before
order by r.visible_at, r.seq option (loop join, force order);

begin transaction;
insert into @locked (seq)
select m.seq
from @old o
inner join [$(Schema)].[$(Queue)] m with (index([$(Queue)_Key]), forceseek, updlock, readpast, rowlock, readcommittedlock) on m.source = @source and m.message_id = o.message_id
where m.seq = o.seq and m.last_seen_at < @before option (loop join, force order);

delete from [$(Schema)].[$(Queue)State]
output deleted.seq into @gone (seq)
from @locked l, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = l.seq and [$(Queue)State].status = 6 and [$(Queue)State].visible_at < @before
    and ([$(Queue)State].locked_until is null or [$(Queue)State].locked_until < @before) option (loop join, force order);

delete from [$(Schema)].[$(Queue)]
from @gone g, [$(Schema)].[$(Queue)] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)].seq = g.seq option (loop join, force order);
commit transaction;

select count(*) as deleted from @gone g;
go

create or alter procedure [$(Schema)].[$(Queue)_Receive]
  @now datetime2(3) = null, @revive bit, @blocks bit = null, @items nvarchar(max) = null, @source nvarchar(255) = null,
  @message_id nvarchar(255) = null, @topic nvarchar(255) = null, @payload nvarchar(max) = null,
  @correlation_id nvarchar(255) = null, @headers nvarchar(max) = null, @due_at datetime2(3) = null,
  @expires_at datetime2(3) = null, @hash varbinary(max) = null, @partition_key nvarchar(255) = null,
  @error nvarchar(max) = null, @error_group varchar(16) = null
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @messages table (
  position int not null primary key, source nvarchar(255) collate Latin1_General_100_BIN2 null,
  message_id nvarchar(255) collate Latin1_General_100_BIN2 null,
  topic nvarchar(255) collate Latin1_General_100_BIN2 null, payload nvarchar(max) null,
  correlation_id nvarchar(255) null, headers nvarchar(max) null, due_at datetime2(3) null, expires_at datetime2(3) null,
  partition_key nvarchar(255) collate Latin1_General_100_BIN2 null, hash varbinary(max) null, error nvarchar(max) null,
  error_group varchar(16) collate Latin1_General_100_BIN2 null
);

if @items is null
  insert into @messages (position, source, message_id, topic, payload, correlation_id, headers, due_at, expires_at, partition_key, hash, error, error_group)
  values (0, @source, @message_id, @topic, @payload, @correlation_id, @headers, @due_at, @expires_at, @partition_key, @hash, @error, @error_group);
else
  insert into @messages (position, source, message_id, topic, payload, correlation_id, headers, due_at, expires_at, partition_key, hash, error, error_group)
  select i.position, i.source, i.message_id, i.topic, i.payload, i.correlation_id, i.headers, i.due_at, i.expires_at, i.partition_key, i.hash, i.error, i.error_group
  from [$(Schema)].[$(Queue)_MessagesFromJson](@items) i;
declare @found table (seq bigint not null primary key, position int not null);
declare @known table (
  seq bigint not null primary key, position int not null unique, old_status tinyint not null,
  partition_key nvarchar(255) collate Latin1_General_100_BIN2 null, due_at datetime2(3) null, expires_at datetime2(3) null, first_seen_at datetime2(3) not null
);
declare @received table (
  seq bigint not null primary key, source nvarchar(255) collate Latin1_General_100_BIN2 not null, message_id nvarchar(255) collate Latin1_General_100_BIN2 not null,
  partition_key nvarchar(255) collate Latin1_General_100_BIN2 null, due_at datetime2(3) null, expires_at datetime2(3) null, deliveries int not null, content_changed bit not null
);
declare @enqueued table (seq bigint not null primary key, keyed bit null);
declare @buried table (seq bigint not null primary key, keyed bit null);

declare @outermost bit = case when @@trancount = 0 then 1 else 0 end;
if @outermost = 1 begin transaction;
if exists (select 1 from @messages i where i.partition_key is not null)
begin
  declare @lock nvarchar(255) = N'', @locked int = 0;
  declare @locks table (name nvarchar(255) collate Latin1_General_100_BIN2 not null primary key);

  insert into @locks (name)
  select distinct concat(N'oncebox $(Schema).$(Queue): ', left(i.partition_key, 150), N' ', checksum(i.partition_key)) collate Latin1_General_100_BIN2 from @messages i where i.partition_key is not null;

  while @lock is not null
  begin
    select @lock = min(l.name) from @locks l where l.name > @lock;
    if @lock is not null exec @locked = sp_getapplock @Resource = @lock, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
    if @locked < 0 throw 51205, N'The transaction was rolled back: it waited for a partition key in a deadlock, or for too long.', 1;
  end
end

declare @rounds int = 0, @again bit = 1;

while @again = 1
begin
  set @again = 0;

  delete from @found;
  delete from @known;

  insert into @found (seq, position)
  select m.seq, i.position
  from (select top (1000000) j.position, j.source, j.message_id from @messages j order by j.source, j.message_id) i
  inner join [$(Schema)].[$(Queue)] m with (index([$(Queue)_Key]), forceseek, updlock, rowlock, readcommittedlock) on m.source = i.source and m.message_id = i.message_id
  -- always so; it is in no index, so the row itself is locked
  where m.deliveries > 0 option (loop join, force order);

  if @@rowcount > 0
    insert into @known (seq, position, old_status, partition_key, due_at, expires_at, first_seen_at)
    select f.seq, i.position, case when (s.status = 6 and (s.locked_until is null or s.locked_until <= @now)) then 0 else s.status end,
      case when s.status = 4 then m.partition_key else i.partition_key end, -- a revived message keeps its key
      m.due_at, m.expires_at, m.first_seen_at
    from (select top (1000000) j.seq, j.position from @found j order by j.seq) f
    inner join [$(Schema)].[$(Queue)State] s with (forceseek, updlock, rowlock, readcommittedlock) on s.seq = f.seq
    inner join [$(Schema)].[$(Queue)] m with (forceseek, readcommittedlock) on m.seq = f.seq
    inner join @messages i on i.position = f.position option (loop join, force order);

  begin try
    if @outermost = 0 set xact_abort off;

    insert into [$(Schema)].[$(Queue)] (source, message_id, topic, payload, hash, correlation_id, headers, due_at, expires_at, partition_key, first_seen_at, last_seen_at, deliveries, content_changed)
    output inserted.seq, inserted.source, inserted.message_id, inserted.partition_key, inserted.due_at, inserted.expires_at,
      inserted.deliveries, inserted.content_changed into @received (seq, source, message_id, partition_key, due_at, expires_at, deliveries, content_changed)
    select i.source, i.message_id, i.topic, i.payload, i.hash, i.correlation_id, i.headers, i.due_at, i.expires_at, i.partition_key, @now, @now, 1, 0
    from @messages i
    where not exists (select 1 from @known k where k.position = i.position)
    order by i.position;
  end try
  begin catch
    set @rounds = @rounds + 1;
    if @outermost = 1 or @rounds = 10 or error_number() not in (2601, 2627)
    begin; throw; end;
    set @again = 1;
  end catch;

  set xact_abort on;
end

insert into [$(Schema)].[$(Queue)State] (seq, status, visible_at, expires_at, keyed)
select a.seq, case when a.partition_key is null then 1 else 5 end, coalesce(a.due_at, @now),
  a.expires_at, case when a.partition_key is not null then 1 end
from @received a;

if exists (select 1 from @received c where c.partition_key is not null)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 0 from @received c
  inner join [$(Schema)].[$(Queue)] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where c.partition_key is not null and m.partition_key is not null
  order by c.seq option (loop join, force order);

if exists (select 1 from @known)
begin
  update [$(Schema)].[$(Queue)]
  set last_seen_at = @now, deliveries = [$(Queue)].deliveries + 1, content_changed = case when ([$(Queue)].hash <> i.hash or datalength([$(Queue)].hash) <> datalength(i.hash)) then 1 else 0 end
  output inserted.seq, inserted.source, inserted.message_id, inserted.partition_key, inserted.due_at, inserted.expires_at,
  inserted.deliveries, inserted.content_changed into @received (seq, source, message_id, partition_key, due_at, expires_at, deliveries, content_changed)
  from @known k, @messages i, [$(Schema)].[$(Queue)] with (forceseek, updlock, rowlock, readcommittedlock)
  where i.position = k.position and [$(Queue)].seq = k.seq option (loop join, force order);

  -- messages that were purged between the two statements, on a server that ignores updlock
  delete from @known where seq not in (select a.seq from @received a);

  -- a done message keeps the content that was handled, and a leased key its own; any other gets the newest
  update [$(Schema)].[$(Queue)]
  set topic = i.topic, payload = i.payload, hash = coalesce(i.hash, [$(Queue)].hash), correlation_id = i.correlation_id, headers = i.headers, due_at = i.due_at, expires_at = i.expires_at
  from @known k, @messages i, [$(Schema)].[$(Queue)] with (forceseek, updlock, rowlock, readcommittedlock)
  where i.position = k.position and [$(Queue)].seq = k.seq and k.old_status not in (3, 6)
    and (([$(Queue)].topic collate Latin1_General_100_BIN2 <> i.topic collate Latin1_General_100_BIN2 or coalesce(datalength([$(Queue)].topic), -1) <> coalesce(datalength(i.topic), -1))
      or ([$(Queue)].payload collate Latin1_General_100_BIN2 <> i.payload collate Latin1_General_100_BIN2 or coalesce(datalength([$(Queue)].payload), -1) <> coalesce(datalength(i.payload), -1))
      or (i.hash is not null and ([$(Queue)].hash is null or ([$(Queue)].hash <> i.hash or datalength([$(Queue)].hash) <> datalength(i.hash))))
      or ([$(Queue)].correlation_id collate Latin1_General_100_BIN2 <> i.correlation_id collate Latin1_General_100_BIN2 or coalesce(datalength([$(Queue)].correlation_id), -1) <> coalesce(datalength(i.correlation_id), -1))
      or ([$(Queue)].headers collate Latin1_General_100_BIN2 <> i.headers collate Latin1_General_100_BIN2 or coalesce(datalength([$(Queue)].headers), -1) <> coalesce(datalength(i.headers), -1))
      or not exists (select [$(Queue)].due_at intersect select i.due_at)
      or not exists (select [$(Queue)].expires_at intersect select i.expires_at)) option (loop join, force order);

  update [$(Schema)].[$(Queue)State]
  set visible_at = case when [$(Queue)State].attempt = 0 then coalesce(i.due_at, k.first_seen_at) when i.due_at > [$(Queue)State].visible_at then i.due_at else [$(Queue)State].visible_at end,
    -- an expiry that a replay removed is not set again by the same delivery
    expires_at = case when not exists (select k.expires_at intersect select i.expires_at) then i.expires_at else [$(Queue)State].expires_at end
  from @known k, @messages i, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
  where i.position = k.position and [$(Queue)State].seq = k.seq and ([$(Queue)State].status in (1, 5, 7)
      or ([$(Queue)State].status = 2 and [$(Queue)State].locked_until is null and [$(Queue)State].visible_at < cast('9999-12-31T00:00:00.000' as datetime2(3))))
    and (not exists (select k.due_at intersect select i.due_at) or not exists (select k.expires_at intersect select i.expires_at)) option (loop join, force order);

  update [$(Schema)].[$(Queue)State]
  set status = case when k.partition_key is null then 1 else 5 end,
    keyed = case when k.partition_key is null then [$(Queue)State].keyed else 1 end,
    attempt = 0, crashes = 0, owner = null, locked_until = null, visible_at = coalesce(i.due_at, @now), expires_at = i.expires_at
  output inserted.seq, inserted.keyed into @enqueued (seq, keyed)
  from @known k, @messages i, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
  where i.position = k.position and [$(Queue)State].seq = k.seq
    and ([$(Queue)State].status = 0 or ([$(Queue)State].status = 6 and ([$(Queue)State].locked_until is null or [$(Queue)State].locked_until <= @now))
      or ([$(Queue)State].status = 2 and [$(Queue)State].visible_at = cast('9999-12-31T00:00:00.000' as datetime2(3))) -- marked Processing by hand
      or ([$(Queue)State].status = 4 and @revive = 1)) option (loop join, force order);

  if exists (select 1 from @enqueued w where w.keyed = 1)
    update [$(Schema)].[$(Queue)]
    set partition_key = k.partition_key
    from @enqueued w, @known k, [$(Schema)].[$(Queue)] with (forceseek, updlock, rowlock, readcommittedlock)
    where k.seq = w.seq and w.keyed = 1 and [$(Queue)].seq = w.seq option (loop join, force order);

  if exists (select 1 from @enqueued c where c.keyed = 1)
    insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
    select c.seq, m.partition_key, 0 from @enqueued c
    inner join [$(Schema)].[$(Queue)] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
    where c.keyed = 1 and m.partition_key is not null
    order by c.seq option (loop join, force order);
end

if exists (select 1 from @messages i where i.error is not null)
begin
  update [$(Schema)].[$(Queue)State]
  set status = 4, owner = null, locked_until = null, visible_at = cast('9999-12-31T00:00:00.000' as datetime2(3)), processed_at = null,
    last_error = nullif(i.error, N''), error_group = i.error_group, died_at = @now
  output inserted.seq, inserted.keyed into @buried (seq, keyed)
  from @messages i, @received a, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
  where i.error is not null and a.source = i.source and a.message_id = i.message_id and [$(Queue)State].seq = a.seq
    and (a.deliveries = 1 or a.content_changed = 1 or exists (select 1 from @enqueued w where w.seq = a.seq))
    and [$(Queue)State].status <> 3 option (loop join, force order);

  if exists (select 1 from @buried c where @blocks = 0 and c.keyed = 1)
    insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
    select c.seq, m.partition_key, 1 from @buried c
    inner join [$(Schema)].[$(Queue)] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
    where @blocks = 0 and c.keyed = 1 and m.partition_key is not null
    order by c.seq option (loop join, force order);
end
if @outermost = 1 commit transaction;

select a.source as source, a.message_id as message_id, a.content_changed as content_changed,
  cast(case when a.deliveries = 1 or w.seq is not null then 1 else 0 end as bit) as enqueued, k.old_status as old_status,
  cast(case when b.seq is not null then 1 else 0 end as bit) as buried
from @received a
left join @buried b on b.seq = a.seq
left join @enqueued w on w.seq = a.seq
left join @known k on k.seq = a.seq;
go

create or alter procedure [$(Schema)].[$(Queue)_AlreadyProcessed]
  @now datetime2(3) = null, @source nvarchar(255), @message_id nvarchar(255), @hash varbinary(max)
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @seq bigint, @old_status tinyint, @content_changed bit = 0;
declare @added table (seq bigint not null primary key);

declare @outermost bit = case when @@trancount = 0 then 1 else 0 end;
if @outermost = 1 begin transaction;
declare @rounds int = 0, @again bit = 1;

while @again = 1
begin
  set @again = 0;

  select @seq = m.seq, @old_status = s.status, @content_changed = case when (m.hash <> @hash or datalength(m.hash) <> datalength(@hash)) then 1 else 0 end
  from [$(Schema)].[$(Queue)] m with (index([$(Queue)_Key]), forceseek, updlock, rowlock, readcommittedlock)
  inner join [$(Schema)].[$(Queue)State] s with (forceseek, updlock, rowlock, readcommittedlock) on s.seq = m.seq
  where m.source = @source and m.message_id = @message_id option (loop join, force order);

  begin try
    if @outermost = 0 set xact_abort off;

    if @seq is null
      insert into [$(Schema)].[$(Queue)] (source, message_id, topic, payload, hash,
        first_seen_at, last_seen_at, deliveries, content_changed)
      output inserted.seq into @added (seq)
      values (@source, @message_id, N'', N'', @hash, @now, @now, 1, 0);
  end try
  begin catch
    set @rounds = @rounds + 1;
    if @outermost = 1 or @rounds = 10 or error_number() not in (2601, 2627)
    begin; throw; end;
    set @again = 1;
  end catch;

  set xact_abort on;
end

if @seq is not null
  update [$(Schema)].[$(Queue)] with (updlock, rowlock, readcommittedlock)
  set hash = case when @old_status = 3 then coalesce(hash, @hash) else coalesce(@hash, hash) end,
    last_seen_at = @now, deliveries = deliveries + 1, content_changed = @content_changed
  where seq = @seq;
else
  insert into [$(Schema)].[$(Queue)State] (seq, status, visible_at)
  select a.seq, 0, @now from @added a;
if @outermost = 1 commit transaction;

select cast(case when @old_status = 3 then 1 else 0 end as bit) as processed, @content_changed as content_changed;
go

create or alter procedure [$(Schema)].[$(Queue)_Mark]
  @now datetime2(3) = null, @source nvarchar(255), @message_id nvarchar(255), @status tinyint, @error nvarchar(max),
  @error_group varchar(16), @blocks bit
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @seq bigint, @old_status tinyint, @keyed bit;
declare @never datetime2(3) = cast('9999-12-31T00:00:00.000' as datetime2(3));
declare @processed_at datetime2(3) = case when @status = 3 then @now end;
declare @died_at datetime2(3) = case when @status = 4 then @now end;
declare @added table (seq bigint not null primary key);
declare @changed table (seq bigint not null primary key);

declare @outermost bit = case when @@trancount = 0 then 1 else 0 end;
if @outermost = 1 begin transaction;
declare @rounds int = 0, @again bit = 1;

while @again = 1
begin
  set @again = 0;

  select @seq = m.seq, @old_status = s.status, @keyed = s.keyed
  from [$(Schema)].[$(Queue)] m with (index([$(Queue)_Key]), forceseek, updlock, rowlock, readcommittedlock)
  inner join [$(Schema)].[$(Queue)State] s with (forceseek, updlock, rowlock, readcommittedlock) on s.seq = m.seq
  where m.source = @source and m.message_id = @message_id option (loop join, force order);

  begin try
    if @outermost = 0 set xact_abort off;

    if @seq is null
      insert into [$(Schema)].[$(Queue)] (source, message_id, topic, payload, hash,
        first_seen_at, last_seen_at, deliveries, content_changed)
      output inserted.seq into @added (seq)
      values (@source, @message_id, N'', N'', null, @now, @now, 1, 0);
  end try
  begin catch
    set @rounds = @rounds + 1;
    if @outermost = 1 or @rounds = 10 or error_number() not in (2601, 2627)
    begin; throw; end;
    set @again = 1;
  end catch;

  set xact_abort on;
end

if @seq is not null
begin
  update [$(Schema)].[$(Queue)] with (updlock, rowlock, readcommittedlock) set last_seen_at = @now where seq = @seq;

  update [$(Schema)].[$(Queue)State] with (updlock, rowlock, readcommittedlock)
  set status = @status, owner = null, locked_until = null, visible_at = @never, processed_at = @processed_at,
    last_error = coalesce(@error, last_error), error_group = case when @error is null then error_group else @error_group end,
    died_at = coalesce(@died_at, died_at)
  output inserted.seq into @changed (seq)
  where seq = @seq
    and ((@status = 2 and status = 0) or (@status <> 2 and status <> 3));
end
else
  insert into [$(Schema)].[$(Queue)State] (seq, status, visible_at, processed_at, died_at, last_error, error_group)
  output inserted.seq into @changed (seq)
  select a.seq, @status, @never, @processed_at, @died_at, @error, @error_group from @added a;

if exists (select 1 from @changed c where @keyed = 1 and (@status = 3 or (@status = 4 and @blocks = 0)))
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 1 from @changed c
  inner join [$(Schema)].[$(Queue)] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where @keyed = 1 and (@status = 3 or (@status = 4 and @blocks = 0)) and m.partition_key is not null
  order by c.seq option (loop join, force order);
if @outermost = 1 commit transaction;

select c.seq as seq from @changed c;
go

-- The outbox
:setvar Queue Outbox
:setvar Kind outbox
:setvar BornAt created_at
:setvar SeenAt created_at
go

if not exists (
  select 1 from [$(Schema)].[oncebox_migrations] where queue = N'outbox:$(Queue)' and number = 1
)
begin
  begin transaction;

  create table [$(Schema)].[$(Queue)] (
    seq bigint identity(1, 1) not null,
    id uniqueidentifier not null,
    message_id uniqueidentifier not null,
    topic nvarchar(255) collate Latin1_General_100_BIN2 not null,
    partition_key nvarchar(255) collate Latin1_General_100_BIN2 null,
    payload nvarchar(max) not null,
    correlation_id nvarchar(255) collate Latin1_General_100_BIN2 null,
    headers nvarchar(max) null,
    due_at datetime2(3) null,
    expires_at datetime2(3) null,
    created_at datetime2(3) not null,
    natural_key nvarchar(255) collate Latin1_General_100_BIN2 null,
    constraint [$(Queue)_PK] primary key clustered (seq),
    constraint [$(Queue)_Key] unique nonclustered (id)
  );
  create unique index [$(Queue)_NaturalKey] on [$(Schema)].[$(Queue)] (topic, natural_key) where natural_key is not null;
  create table [$(Schema)].[$(Queue)State] (
    seq bigint not null,
    visible_at datetime2(3) not null,
    locked_until datetime2(3) null,
    expires_at datetime2(3) null,
    processed_at datetime2(3) null,
    owner uniqueidentifier null,
    attempt int not null constraint [$(Queue)State_Attempt] default 0,
    status tinyint not null,
    crashes int not null constraint [$(Queue)State_Crashes] default 0,
    -- 1 for a message with a partition key, else null
    keyed bit null,
    processed_by nvarchar(100) null,
    -- not of a done message: there it is processed_at
    last_attempt_at datetime2(3) null,
    -- of a dead message
    died_at datetime2(3) null,
    -- the same for errors that differ in ids and numbers only
    error_group varchar(16) collate Latin1_General_100_BIN2 null,
    last_error nvarchar(max) null,
    -- since when it was due at its last claim
    due_since datetime2(3) null,
    -- the control that has parked the message
    parked_by bigint null,
    -- the limits that have let it pass since it was last claimed, such as ',3,9,'
    passes varchar(max) null,
    constraint [$(Queue)State_PK] primary key clustered (seq)
  );
  create index [$(Queue)_Ready] on [$(Schema)].[$(Queue)State] (visible_at, seq) where status = 1;
  create index [$(Queue)_Held] on [$(Schema)].[$(Queue)State] (visible_at, seq) include (locked_until, crashes) where status = 2;
  create index [$(Queue)_Dead] on [$(Schema)].[$(Queue)State] (seq) include (expires_at, locked_until, error_group, died_at, keyed) where status = 4;
  create index [$(Queue)_Expiry] on [$(Schema)].[$(Queue)State] (expires_at) include (status, locked_until) where expires_at is not null and status in (1, 2, 5, 7);
  create table [$(Schema)].[$(Queue)PartitionQueue] (
    position bigint identity(1, 1) not null,
    partition_key nvarchar(255) collate Latin1_General_100_BIN2 not null,
    seq bigint not null,
    constraint [$(Queue)PartitionQueue_PK] primary key clustered (partition_key, position),
    constraint [$(Queue)PartitionQueue_Seq] unique nonclustered (seq)
  );
  create table [$(Schema)].[$(Queue)PartitionChanges] (
    number bigint identity(1, 1) not null,
    seq bigint not null,
    partition_key nvarchar(255) collate Latin1_General_100_BIN2 not null,
    -- 0 joins, 1 leaves, 2 the head is to be checked
    change tinyint not null,
    constraint [$(Queue)PartitionChanges_PK] primary key clustered (number)
  );
  create table [$(Schema)].[$(Queue)Attempts] (
    seq bigint not null,
    number bigint identity(1, 1) not null,
    attempt int not null,
    ended_at datetime2(3) not null,
    worker uniqueidentifier null,
    error nvarchar(max) null,
    constraint [$(Queue)Attempts_PK] primary key clustered (seq, number)
  );
  create table [$(Schema)].[$(Queue)Archive] (
    seq bigint not null,
    id uniqueidentifier not null,
    message_id uniqueidentifier not null,
    topic nvarchar(255) collate Latin1_General_100_BIN2 not null,
    partition_key nvarchar(255) collate Latin1_General_100_BIN2 null,
    payload nvarchar(max) not null,
    correlation_id nvarchar(255) collate Latin1_General_100_BIN2 null,
    headers nvarchar(max) null,
    enqueued_at datetime2(3) not null,
    attempt int not null,
    last_error nvarchar(max) null,
    error_group varchar(16) collate Latin1_General_100_BIN2 null,
    -- the failed attempts, as JSON
    attempts nvarchar(max) not null,
    died_at datetime2(3) not null,
    archived_at datetime2(3) not null,
    archived_by nvarchar(255) not null,
    constraint [$(Queue)Archive_PK] primary key clustered (seq)
  );
:r $(Folder)/sqlserver-tables.sql
  insert into [$(Schema)].[oncebox_migrations] (queue, number, name) values (N'outbox:$(Queue)', 1, N'outbox');

  commit transaction;
end
go

create or alter view [$(Schema)].[$(Queue)Messages] as
select
  m.id as Id,
  m.topic as Topic,
  m.payload as Payload,
  m.created_at as CreatedAt,
  case
    when s.status = 3 then 'done'
    when s.status = 4 then 'dead'
    when s.locked_until is not null then 'running'
    when exists (select 1 from [$(Schema)].[$(Queue)Controls] c where c.paused = 1 and (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic))) then 'paused'
    when s.attempt > 0 then 'retrying'
    else 'waiting'
  end as Status,
  case
    when s.status = 3 then 'Done'
    when s.status = 4 then 'Failed'
    when s.locked_until is not null then 'InProgress'
    else 'Ready'
  end as State,
  s.locked_until as LockedUntil,
  s.owner as OwnerToken,
  cast(case when s.status = 3 then 1 else 0 end as bit) as IsProcessed,
  s.processed_at as ProcessedAt,
  s.processed_by as ProcessedBy,
  s.attempt as RetryCount,
  s.last_error as LastError,
  s.visible_at as NextAttemptAt,
  m.message_id as MessageId,
  m.correlation_id as CorrelationId,
  m.due_at as DueTimeUtc,
  s.expires_at as ExpiresAt,
  m.partition_key as PartitionKey,
  coalesce(s.processed_at, s.last_attempt_at) as LastAttemptAt,
  m.headers as Headers,
  m.natural_key as NaturalKey
from [$(Schema)].[$(Queue)] m
inner join [$(Schema)].[$(Queue)State] s on s.seq = m.seq
go

create or alter function [$(Schema)].[$(Queue)_MessagesFromJson] (@items nvarchar(max))
returns table as return
select cast(a.[key] as int) as position, i.id as id, i.message_id as message_id,
  i.topic collate Latin1_General_100_BIN2 as topic, i.payload as payload, i.correlation_id as correlation_id,
  i.headers as headers, i.due_at as due_at, i.expires_at as expires_at,
  i.partition_key collate Latin1_General_100_BIN2 as partition_key,
  i.natural_key collate Latin1_General_100_BIN2 as natural_key
from openjson(@items) a
cross apply openjson(a.value) with (
  id uniqueidentifier, message_id uniqueidentifier, topic nvarchar(255), payload nvarchar(max),
  correlation_id nvarchar(255), headers nvarchar(max), due_at datetime2(3), expires_at datetime2(3),
  partition_key nvarchar(255), natural_key nvarchar(255)
) i
go

:r $(Folder)/sqlserver-queue.sql

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
  seq bigint not null primary key, attempt int not null, expires_at datetime2(3) null, visible_at datetime2(3) not null,
  locked_until datetime2(3) null, owner uniqueidentifier null, crashes int not null, status tinyint not null, keyed bit null
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
output inserted.seq, inserted.attempt, inserted.expires_at, inserted.visible_at, inserted.locked_until, inserted.owner,
  inserted.crashes, inserted.status, inserted.keyed
  into @claimed (seq, attempt, expires_at, visible_at, locked_until, owner, crashes, status, keyed)
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
  where @blocks = 0 and c.keyed = 1 and c.status = 4 and m.partition_key is not null
  order by c.seq option (loop join, force order);

if exists (select 1 from [$(Schema)].[$(Queue)Controls] k) set @verdict = 'controlled';

-- read before the commit: a claim whose rows cannot be returned is undone. No other transaction can have changed these
-- messages and not ended yet, because it would have locked their states first.
if @verdict = 'controlled' and not exists (select 1 from @claimed)
  select cast(null as bigint) as seq, @verdict as verdict;
else
  select c.seq as seq, c.attempt as attempt, c.expires_at as expires_at, c.visible_at as next_attempt_at,
    c.locked_until as locked_until, c.owner as owner, c.crashes as crashes, c.status as status,
    s.last_error as last_error, s.last_attempt_at as last_attempt_at, s.processed_at as processed_at,
    s.processed_by as processed_by, m.topic as topic, m.payload as payload, m.partition_key as partition_key,
    m.headers as headers, m.correlation_id as correlation_id, m.due_at as due_at, m.id as id, m.message_id as message_id,
    m.created_at as created_at, m.natural_key as natural_key,
    case when c.status = 2 then @verdict when c.expires_at <= @now then 'expired' else 'exhausted' end as verdict
  from @claimed c
  inner join [$(Schema)].[$(Queue)State] s with (forceseek) on s.seq = c.seq
  inner join [$(Schema)].[$(Queue)] m with (forceseek) on m.seq = c.seq
  order by c.seq option (loop join, force order);
commit transaction;
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
  where @blocks = 0 and c.keyed = 1 and c.status = 4 and m.partition_key is not null
  order by c.seq option (loop join, force order);

if @blocks = 0 and exists (select 1 from [$(Schema)].[$(Queue)PartitionQueue] q with (readpast, rowlock, readcommittedlock))
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select q.seq, q.partition_key, 1
  from [$(Schema)].[$(Queue)State] s with (index([$(Queue)_Dead]), readpast, rowlock, readcommittedlock)
  inner join [$(Schema)].[$(Queue)PartitionQueue] q with (index([$(Queue)PartitionQueue_Seq]), forceseek, readpast, rowlock, readcommittedlock) on q.seq = s.seq
  where s.status = 4 and s.keyed = 1 option (loop join, force order);
commit transaction;

if exists (select 1 from [$(Schema)].[$(Queue)PartitionChanges] c with (readpast, rowlock, readcommittedlock))
  exec [$(Schema)].[$(Queue)_ApplyPartitionChanges];

select r.seq as seq, m.id as id,
  case when r.status <> 4 then 'reaped' when r.expires_at <= @now then 'expired' else 'exhausted' end as verdict
from @reaped r
inner join [$(Schema)].[$(Queue)] m with (forceseek) on m.seq = r.seq option (loop join, force order);
go

create or alter procedure [$(Schema)].[$(Queue)_Purge]
  @now datetime2(3) = null, @limit int, @retention_ms float, @after_seq bigint, @source nvarchar(255)
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @before datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, -@retention_ms) a);
declare @last_seq bigint, @more bit = 0;
declare @scanned table (seq bigint not null primary key, ended_at datetime2(3) null, keyed bit null);
declare @old table (seq bigint not null primary key);
declare @gone table (seq bigint not null primary key);

insert into @scanned (seq, ended_at, keyed)
select top (@limit) s.seq, case when s.status = 3 then s.processed_at end, s.keyed
from [$(Schema)].[$(Queue)State] s with (forceseek, readpast, rowlock, readcommittedlock)
where s.seq > @after_seq
order by s.seq;

if @@rowcount = @limit set @more = 1;

select @last_seq = max(w.seq) from @scanned w;

if not exists (select 1 from [$(Schema)].[$(Queue)] m with (forceseek, readpast, rowlock, readcommittedlock) where m.seq = @last_seq and m.created_at < @before)
  set @more = 0;

begin transaction;
insert into @old (seq)
select m.seq
from @scanned w
inner join [$(Schema)].[$(Queue)] m with (forceseek, updlock, readpast, rowlock, readcommittedlock) on m.seq = w.seq
inner join [$(Schema)].[$(Queue)State] s with (forceseek, updlock, readpast, rowlock, readcommittedlock) on s.seq = m.seq
where w.ended_at < @before and s.status = 3 and s.processed_at < @before and m.created_at < @before option (loop join, force order);

delete from [$(Schema)].[$(Queue)]
output deleted.seq into @gone (seq)
from @old o, [$(Schema)].[$(Queue)] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)].seq = o.seq and [$(Queue)].created_at < @before option (loop join, force order);

delete from [$(Schema)].[$(Queue)State]
from @gone g, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = g.seq option (loop join, force order);

delete from [$(Schema)].[$(Queue)Attempts]
from @gone g, [$(Schema)].[$(Queue)Attempts] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Attempts].seq = g.seq option (loop join, force order);
commit transaction;

select count(*) as deleted, @last_seq as last_seq, @more as more from @gone g;
go

create or alter procedure [$(Schema)].[$(Queue)_Resolve]
  @items nvarchar(max)
as
set nocount, xact_abort on;
select m.seq as seq, m.id as id
from openjson(@items) with (id uniqueidentifier) i
inner join [$(Schema)].[$(Queue)] m with (index([$(Queue)_Key]), forceseek) on m.id = i.id option (loop join, force order);
go

create or alter procedure [$(Schema)].[$(Queue)_Get]
  @id uniqueidentifier
as
set nocount, xact_abort on;
if @@trancount = 0 and exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)
  set transaction isolation level read uncommitted;

select s.seq as seq, s.attempt as attempt, s.expires_at as expires_at, s.visible_at as next_attempt_at,
  s.locked_until as locked_until, s.owner as owner, s.crashes as crashes, s.status as status, s.last_error as last_error,
  s.last_attempt_at as last_attempt_at, s.processed_at as processed_at, s.processed_by as processed_by,
  s.died_at as died_at, s.error_group as error_group, m.topic as topic, m.payload as payload,
  m.partition_key as partition_key, m.headers as headers, m.correlation_id as correlation_id, m.due_at as due_at,
  m.id as id, m.message_id as message_id, m.created_at as created_at, m.natural_key as natural_key
from [$(Schema)].[$(Queue)] m with (index([$(Queue)_Key]), forceseek)
inner join [$(Schema)].[$(Queue)State] s with (forceseek) on s.seq = m.seq
where m.id = @id option (loop join, force order);
go

create or alter procedure [$(Schema)].[$(Queue)_Attempts]
  @id uniqueidentifier
as
set nocount, xact_abort on;
if @@trancount = 0 and exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)
  set transaction isolation level read uncommitted;

select a.attempt as attempt, a.ended_at as ended_at, a.worker as worker, a.error as error
from [$(Schema)].[$(Queue)] m with (index([$(Queue)_Key]), forceseek)
inner join [$(Schema)].[$(Queue)Attempts] a with (forceseek) on a.seq = m.seq
where m.id = @id
order by a.number option (loop join, force order);
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

select top (@limit) s.seq as seq, s.attempt as attempt, s.expires_at as expires_at, s.visible_at as next_attempt_at,
  s.locked_until as locked_until, s.owner as owner, s.crashes as crashes, s.status as status, s.last_error as last_error,
  s.last_attempt_at as last_attempt_at, s.processed_at as processed_at, s.processed_by as processed_by,
  s.died_at as died_at, s.error_group as error_group, m.topic as topic, m.payload as payload,
  m.partition_key as partition_key, m.headers as headers, m.correlation_id as correlation_id, m.due_at as due_at,
  m.id as id, m.message_id as message_id, m.created_at as created_at, m.natural_key as natural_key
from [$(Schema)].[$(Queue)State] s
inner join [$(Schema)].[$(Queue)] m on m.seq = s.seq
where s.seq > @after_seq
  and (@status is null or (s.status in (@status, @status_2, @status_3, @status_4, @status_5) and (s.status <> 6 or case when s.locked_until is null then 0 else 2 end in (@status, @status_2, @status_3, @status_4, @status_5))))
  and (@ended_as is null or 1 = 0)
  and (@leased is null or case when s.locked_until is not null then 1 else 0 end = @leased)
  and (@topic is null or m.topic = @topic)
  and (@source is null or 1 = 0)
  and (@error is null or charindex(@error collate Latin1_General_100_BIN2, s.last_error collate Latin1_General_100_BIN2) > 0)
  and (@error_group is null or coalesce(s.error_group, '') = @error_group)
  and (@until is null or case when s.status = 4 then s.died_at else m.created_at end <= @until)
  and (@since is null or case when s.status = 4 then s.died_at else m.created_at end >= @since)
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
select s.status as status, cast(case when s.locked_until is not null then 1 else 0 end as bit) as leased, cast(case when s.attempt > 0 then 1 else 0 end as bit) as retried,
  h.held as held, count_big(*) as [count], sum(cast(case when s.visible_at <= @now and s.status in (1, 2) then 1 else 0 end as bigint)) as due,
  datediff_big(millisecond, min(case when s.visible_at <= @now and s.status in (1, 2) then s.visible_at end), @now) as oldest_due_ms,
  sum(cast(case when s.status = 4 and s.expires_at <= @now then 1 else 0 end as bigint)) as expired, @paused as paused
from [$(Schema)].[$(Queue)State] s
cross apply (
  select cast(case
    when @pauses = 0 or s.status not in (1, 2, 5, 7) then 0
    when exists (
      select 1 from [$(Schema)].[$(Queue)] m inner join [$(Schema)].[$(Queue)Controls] c on (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic))
      where m.seq = s.seq and c.paused = 1 and c.scope <> N'queue'
    ) then 1
    else 0
  end as bit) as held
) h
group by s.status, case when s.locked_until is not null then 1 else 0 end, case when s.attempt > 0 then 1 else 0 end, h.held;
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
    where s.status = 1 and s.visible_at <= @now and (@pauses = 0 or not exists (
      select 1 from [$(Schema)].[$(Queue)] m inner join [$(Schema)].[$(Queue)Controls] c on (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic))
      where m.seq = s.seq and c.paused = 1 and c.scope <> N'queue'
    ))
    order by s.visible_at
  ) as visible_at
  union all
  select (
    select top (1) s.visible_at
    from [$(Schema)].[$(Queue)State] s with (index([$(Queue)_Held]))
    where s.status = 2 and s.visible_at <= @now and (@pauses = 0 or not exists (
      select 1 from [$(Schema)].[$(Queue)] m inner join [$(Schema)].[$(Queue)Controls] c on (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic))
      where m.seq = s.seq and c.paused = 1 and c.scope <> N'queue'
    ))
    order by s.visible_at
  ) as visible_at
) d
where not exists (
  select 1 from [$(Schema)].[$(Queue)Controls] c with (index([$(Queue)Controls_Key]), forceseek)
  where c.scope = N'queue' and c.name = N'' and c.paused = 1
);
go

create or alter procedure [$(Schema)].[$(Queue)_Replay]
  @now datetime2(3) = null, @items nvarchar(max), @ttl_ms float, @status tinyint
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
where [$(Queue)State].seq = i.seq and [$(Queue)State].status = @status and @status in (3, 4) option (loop join, force order);

if exists (select 1 from @changed c where c.keyed = 1)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 0 from @changed c
  inner join [$(Schema)].[$(Queue)] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where c.keyed = 1 and m.partition_key is not null
  order by c.seq option (loop join, force order);
commit transaction;

select c.seq as seq from @changed c;
go

create or alter procedure [$(Schema)].[$(Queue)_Archive]
  @now datetime2(3) = null, @items nvarchar(max), @who nvarchar(255), @ended_as varchar(10)
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @gone table (seq bigint not null primary key, keyed bit null);

begin transaction;
insert into @gone (seq, keyed)
select m.seq, s.keyed
from openjson(@items) with (seq bigint '$') i
inner join [$(Schema)].[$(Queue)] m with (forceseek, updlock, rowlock, readcommittedlock) on m.seq = i.seq
inner join [$(Schema)].[$(Queue)State] s with (forceseek, updlock, rowlock, readcommittedlock) on s.seq = m.seq
where s.status = 4 option (loop join, force order);

insert into [$(Schema)].[$(Queue)Archive] (seq, id, message_id, topic, partition_key, payload, correlation_id, headers,
  enqueued_at, attempt, last_error, error_group, attempts, died_at, archived_at, archived_by)
select m.seq, m.id, m.message_id, m.topic, m.partition_key, m.payload, m.correlation_id, m.headers,
  m.created_at, s.attempt, s.last_error, s.error_group, coalesce((
    select a.attempt as attempt, datediff_big(millisecond, '1970-01-01', a.ended_at) as endedAt, lower(a.worker) as worker, a.error as error
    from [$(Schema)].[$(Queue)Attempts] a with (forceseek)
    where a.seq = g.seq
    order by a.number
    for json path, include_null_values
  ), N'[]'), s.died_at, @now, @who
from @gone g
inner join [$(Schema)].[$(Queue)] m with (forceseek) on m.seq = g.seq
inner join [$(Schema)].[$(Queue)State] s with (forceseek) on s.seq = g.seq
option (loop join, force order);

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
  select m.seq, (
      select top (1) c.id
      from @controls c
      where (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic)) and (c.paused = 1 or (
        c.per_second is not null and charindex(',' + cast(c.id as varchar(20)) + ',', coalesce(o.passes, '')) = 0
      ))
      order by c.paused desc, c.id
    ) as control
  from @owned o
  inner join [$(Schema)].[$(Queue)] m with (forceseek) on m.seq = o.seq
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

create or alter procedure [$(Schema)].[$(Queue)_Enqueue]
  @now datetime2(3) = null, @items nvarchar(max) = null, @id uniqueidentifier = null,
  @message_id uniqueidentifier = null, @topic nvarchar(255) = null, @payload nvarchar(max) = null,
  @correlation_id nvarchar(255) = null, @headers nvarchar(max) = null, @due_at datetime2(3) = null,
  @expires_at datetime2(3) = null, @partition_key nvarchar(255) = null, @natural_key nvarchar(255) = null
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @messages table (
  position int not null primary key, id uniqueidentifier null, message_id uniqueidentifier null,
  topic nvarchar(255) collate Latin1_General_100_BIN2 null, payload nvarchar(max) null,
  correlation_id nvarchar(255) null, headers nvarchar(max) null, due_at datetime2(3) null, expires_at datetime2(3) null,
  partition_key nvarchar(255) collate Latin1_General_100_BIN2 null,
  natural_key nvarchar(255) collate Latin1_General_100_BIN2 null
);

if @items is null
  insert into @messages (position, id, message_id, topic, payload, correlation_id, headers, due_at, expires_at, partition_key, natural_key)
  values (0, @id, @message_id, @topic, @payload, @correlation_id, @headers, @due_at, @expires_at, @partition_key, @natural_key);
else
  insert into @messages (position, id, message_id, topic, payload, correlation_id, headers, due_at, expires_at, partition_key, natural_key)
  select i.position, i.id, i.message_id, i.topic, i.payload, i.correlation_id, i.headers, i.due_at, i.expires_at, i.partition_key, i.natural_key
  from [$(Schema)].[$(Queue)_MessagesFromJson](@items) i;
declare @known table (position int not null primary key, id uniqueidentifier not null);
declare @added table (
  seq bigint not null primary key, partition_key nvarchar(255) collate Latin1_General_100_BIN2 null, due_at datetime2(3) null, expires_at datetime2(3) null
);

declare @outermost bit = case when @@trancount = 0 then 1 else 0 end;
if @outermost = 1 begin transaction;
if exists (select 1 from @messages i where i.partition_key is not null)
begin
  declare @lock nvarchar(255) = N'', @locked int = 0;
  declare @locks table (name nvarchar(255) collate Latin1_General_100_BIN2 not null primary key);

  insert into @locks (name)
  select distinct concat(N'oncebox $(Schema).$(Queue): ', left(i.partition_key, 150), N' ', checksum(i.partition_key)) collate Latin1_General_100_BIN2 from @messages i where i.partition_key is not null;

  while @lock is not null
  begin
    select @lock = min(l.name) from @locks l where l.name > @lock;
    if @lock is not null exec @locked = sp_getapplock @Resource = @lock, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
    if @locked < 0 throw 51205, N'The transaction was rolled back: it waited for a partition key in a deadlock, or for too long.', 1;
  end
end

declare @rounds int = 0, @again bit = 1;

while @again = 1
begin
  set @again = 0;

  delete from @known;

  if exists (select 1 from @messages i where i.natural_key is not null)
    insert into @known (position, id)
    select i.position, m.id
    from (select top (1000000) j.position, j.topic, j.natural_key from @messages j order by j.topic, j.natural_key) i
    inner join [$(Schema)].[$(Queue)] m with (index([$(Queue)_NaturalKey]), forceseek, readcommittedlock)
      on m.topic = i.topic and m.natural_key = i.natural_key and m.natural_key is not null option (loop join, force order);

  begin try
    if @outermost = 0 set xact_abort off;

    insert into [$(Schema)].[$(Queue)] (id, message_id, topic, payload, correlation_id, headers, due_at, expires_at, partition_key, natural_key, created_at)
    output inserted.seq, inserted.partition_key, inserted.due_at, inserted.expires_at into @added (seq, partition_key, due_at, expires_at)
    select i.id, i.message_id, i.topic, i.payload, i.correlation_id, i.headers, i.due_at, i.expires_at, i.partition_key, i.natural_key, @now
    from @messages i
    where not exists (select 1 from [$(Schema)].[$(Queue)] m with (index([$(Queue)_Key]), forceseek, readcommittedlock) where m.id = i.id)
      and not exists (select 1 from @known k where k.position = i.position)
    order by i.position option (loop join, force order);
  end try
  begin catch
    set @rounds = @rounds + 1;
    if @outermost = 1 or @rounds = 10 or error_number() not in (2601, 2627)
    begin; throw; end;
    set @again = 1;
  end catch;

  set xact_abort on;
end

insert into [$(Schema)].[$(Queue)State] (seq, status, visible_at, expires_at, keyed)
select a.seq, case when a.partition_key is null then 1 else 5 end, coalesce(a.due_at, @now),
  a.expires_at, case when a.partition_key is not null then 1 end
from @added a;

if exists (select 1 from @added c where c.partition_key is not null)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 0 from @added c
  inner join [$(Schema)].[$(Queue)] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where c.partition_key is not null and m.partition_key is not null
  order by c.seq option (loop join, force order);
if @outermost = 1 commit transaction;

if exists (select 1 from @known)
  select i.id as id, k.id as known_id from @known k inner join @messages i on i.position = k.position;
go

create or alter procedure [$(Schema)].[$(Queue)_ExpireDead]
  @now datetime2(3) = null, @owner uniqueidentifier, @lease_ms float, @limit int
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @lease_end datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, @lease_ms) a);
declare @expired table (seq bigint not null primary key);

update [$(Schema)].[$(Queue)State]
set owner = @owner, locked_until = @lease_end,
  last_error = case when charindex(N'It was not handled before its expiresAt.' collate Latin1_General_100_BIN2, coalesce([$(Queue)State].last_error, N'') collate Latin1_General_100_BIN2) = 0 then N'It was not handled before its expiresAt.' + coalesce(N' Before that: ' + [$(Queue)State].last_error, N'') else [$(Queue)State].last_error end
output inserted.seq into @expired (seq)
from (
  select top (@limit) r.seq
  from [$(Schema)].[$(Queue)State] r with (index([$(Queue)_Dead]), updlock, readpast, rowlock, readcommittedlock)
  where r.status = 4 and r.expires_at <= @now and ((r.locked_until is null and charindex(N'It was not handled before its expiresAt.' collate Latin1_General_100_BIN2, coalesce(r.last_error, N'') collate Latin1_General_100_BIN2) = 0) or r.locked_until <= @now) and r.attempt >= 0
  order by r.seq
) p, [$(Schema)].[$(Queue)State] with (forceseek, updlock, readpast, rowlock, readcommittedlock)
where [$(Queue)State].seq = p.seq and [$(Queue)State].status = 4 and [$(Queue)State].expires_at <= @now and (([$(Queue)State].locked_until is null and charindex(N'It was not handled before its expiresAt.' collate Latin1_General_100_BIN2, coalesce([$(Queue)State].last_error, N'') collate Latin1_General_100_BIN2) = 0) or [$(Queue)State].locked_until <= @now) option (loop join, force order);

select e.seq as seq, m.id as id
from @expired e
inner join [$(Schema)].[$(Queue)] m with (forceseek) on m.seq = e.seq option (loop join, force order);
go

create or alter procedure [$(Schema)].[$(Queue)_ListDone]
  @after_seq bigint, @limit int
as
set nocount, xact_abort on;
select top (@limit) s.seq as seq, m.id as id, m.topic as topic,
  s.processed_at as processed_at
from [$(Schema)].[$(Queue)State] s with (readpast, rowlock, readcommittedlock)
inner join [$(Schema)].[$(Queue)] m with (forceseek) on m.seq = s.seq
where s.seq > @after_seq and s.status = 3
order by s.seq option (loop join, force order);
go

create or alter procedure [$(Schema)].[$(Queue)_MakeDue]
  @now datetime2(3) = null, @error nvarchar(max), @limit int
as
set nocount, xact_abort on; set @now = coalesce(@now, sysutcdatetime());
declare @due table (seq bigint not null primary key);

update [$(Schema)].[$(Queue)State]
set visible_at = @now
output inserted.seq into @due (seq)
from (
  select top (@limit) r.seq
  from [$(Schema)].[$(Queue)State] r with (index([$(Queue)_Ready]), updlock, readpast, rowlock, readcommittedlock)
  where r.status = 1 and r.visible_at > @now and r.last_error collate Latin1_General_100_BIN2 = @error collate Latin1_General_100_BIN2 and r.attempt >= 0
  order by r.visible_at, r.seq
) p, [$(Schema)].[$(Queue)State] with (forceseek, updlock, readpast, rowlock, readcommittedlock)
where [$(Queue)State].seq = p.seq and [$(Queue)State].status = 1 and [$(Queue)State].visible_at > @now and [$(Queue)State].last_error collate Latin1_General_100_BIN2 = @error collate Latin1_General_100_BIN2 option (loop join, force order);

select d.seq as seq from @due d;
go
