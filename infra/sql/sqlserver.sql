-- The oncebox schema, for SQL Server 2017 or newer, a compatibility level of 130 or more, and Azure SQL. Made by npm run render:sql; do not edit
-- anything but the values of :setvar. Run it with sqlcmd in the folder of this file and of the two that it reads,
-- sqlserver-tables.sql and sqlserver-queue.sql, with -E, -U or -G, as you log in:
--   sqlcmd -S "$SQL_SERVER" -d "$SQL_DATABASE" -i sqlserver.sql
-- It may be run again: tables stay as they are, procedures are replaced, and rights on them stay. In SSMS, turn SQLCMD mode on
-- and give the whole path of the folder as Folder, without spaces. Other clients run what oncebox migrate --print --all
-- prints: the same schema as plain T-SQL. users-sqlserver.sql gives users their rights.
-- For other names, change Schema here and the two lines of Queue below; sqlcmd's -v does not change them. A name with a
-- space stands in double quotes. One with a quote or a bracket needs oncebox migrate. To leave a queue out, delete its part.
:setvar Folder .
:setvar Schema infra
:on error exit
set noexec off
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
:setvar CreatedAt first_seen_at
:setvar SeenAt last_seen_at
go

if not exists (
  select 1 from [$(Schema)].[oncebox_migrations] where queue = N'inbox:$(Queue)' and number = 1
)
begin
  begin transaction;

  create table [$(Schema)].[$(Queue)Messages] (
    seq bigint identity(1, 1) not null,
    source nvarchar(255) collate Latin1_General_100_BIN2 not null,
    message_id nvarchar(255) collate Latin1_General_100_BIN2 not null,
    topic nvarchar(255) collate Latin1_General_100_BIN2 not null,
    -- of the event; null where it is the topic
    type nvarchar(255) collate Latin1_General_100_BIN2 null,
    partition_key nvarchar(255) collate Latin1_General_100_BIN2 null,
    payload nvarchar(max) not null,
    correlation_id nvarchar(255) collate Latin1_General_100_BIN2 null,
    headers nvarchar(max) null,
    due_at datetime2(3) null,
    expires_at datetime2(3) null,
    -- an algorithm and hexadecimal digits, as sha256:9f86d081, or only digits where no algorithm was given
    hash varchar(max) collate Latin1_General_100_BIN2 null,
    first_seen_at datetime2(3) not null,
    last_seen_at datetime2(3) not null,
    deliveries int not null constraint [$(Queue)_Deliveries] default 1,
    -- the hash of the last delivery differs from the one before it, by the same algorithm
    content_changed bit not null constraint [$(Queue)_ContentChanged] default 0,
    constraint [$(Queue)Messages_PK] primary key clustered (seq),
    constraint [$(Queue)_Key] unique nonclustered (source, message_id)
  );
  create table [$(Schema)].[$(Queue)Keys] (
    seq bigint identity(1, 1) not null,
    source nvarchar(255) collate Latin1_General_100_BIN2 not null,
    [key] nvarchar(255) collate Latin1_General_100_BIN2 not null,
    -- null when the key was released or is processed
    lease_id uniqueidentifier null,
    -- the end of the last lease
    locked_until datetime2(3) null,
    attempt int not null constraint [$(Queue)Keys_Attempt] default 0,
    -- the holder's name
    owner nvarchar(100) null,
    first_seen_at datetime2(3) not null,
    last_seen_at datetime2(3) not null,
    processed_at datetime2(3) null,
    -- the lease that has finished it
    processed_by uniqueidentifier null,
    constraint [$(Queue)Keys_PK] primary key clustered (seq),
    constraint [$(Queue)Keys_Key] unique nonclustered (source, [key])
  );
  create index [$(Queue)Keys_FirstSeen] on [$(Schema)].[$(Queue)Keys] (source, first_seen_at, seq);
  alter table [$(Schema)].[$(Queue)Keys] set (lock_escalation = disable);
  create table [$(Schema)].[$(Queue)Archive] (
    seq bigint not null,
    source nvarchar(255) collate Latin1_General_100_BIN2 not null,
    message_id nvarchar(255) collate Latin1_General_100_BIN2 not null,
    topic nvarchar(255) collate Latin1_General_100_BIN2 not null,
    type nvarchar(255) collate Latin1_General_100_BIN2 null,
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
end
go

create or alter view [$(Schema)].[$(Queue)] as
select
  m.source as Source, m.message_id as MessageId, m.topic as Topic, m.payload as Payload,
  convert(varbinary(max), substring(m.hash, charindex(':', m.hash) + 1, datalength(m.hash)), 2) as Hash,
  m.first_seen_at as FirstSeenUtc, m.last_seen_at as LastSeenUtc,
  case
    when s.seq is null then 'Done'
    when s.status = 0 then 'Seen'
    when s.status = 4 then 'Dead'
    else 'Processing'
  end as Status,
  s.locked_until as LockedUntil, s.owner as OwnerToken, coalesce(s.attempt, d.attempt) as Attempt,
  coalesce(s.last_error, d.last_error) as LastError,
  coalesce(s.reclaimable_at, s.visible_at, d.processed_at) as NextAttemptAt, m.due_at as DueTimeUtc,
  case
    when s.seq is null then coalesce(d.resolution, 'done')
    when s.status = 0 then 'seen'
    when s.status = 4 then 'dead'
    when s.locked_until is not null then 'running'
    when exists (select 1 from [$(Schema)].[$(Queue)Controls] c where c.paused = 1 and (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic) or (c.scope = N'source' and c.name = m.source))) then 'paused'
    when s.attempt > 0 then 'retrying'
    else 'waiting'
  end as Phase,
  case when charindex(':', m.hash) > 0 then left(m.hash, charindex(':', m.hash) - 1) end as HashAlgorithm,
  case when s.seq is null then m.expires_at else s.expires_at end as ExpiresAt,
  m.correlation_id as CorrelationId, d.processed_at as ProcessedAt, m.deliveries as Deliveries,
  m.partition_key as PartitionKey, coalesce(m.type, m.topic) as Type, coalesce(d.processed_at, s.last_attempt_at) as LastAttemptAt
from [$(Schema)].[$(Queue)Messages] m
left join [$(Schema)].[$(Queue)State] s on s.seq = m.seq
left join [$(Schema)].[$(Queue)Done] d on d.seq = m.seq
go

create or alter function [$(Schema)].[$(Queue)_MessageOf] (@seq bigint)
returns table as return
select m.topic, m.type, m.payload, m.partition_key, m.headers, m.correlation_id, m.due_at, m.expires_at as given_expires_at,
  m.source, m.message_id, m.hash, m.first_seen_at, m.last_seen_at, m.deliveries
from [$(Schema)].[$(Queue)Messages] m with (forceseek)
where m.seq = @seq
go

create or alter function [$(Schema)].[$(Queue)_KeyOf] (@seq bigint)
returns table as return
select m.source, m.message_id, m.topic
from [$(Schema)].[$(Queue)Messages] m with (forceseek)
where m.seq = @seq
go

:r $(Folder)/sqlserver-queue.sql

create or alter procedure [$(Schema)].[$(Queue)_Purge]
  @limit int, @rules nvarchar(max), @shortest_ms float, @after_seq bigint, @status tinyint
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @youngest datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, -@shortest_ms) a);
declare @last_seq bigint, @more bit;
declare @scanned table (seq bigint not null primary key, ended_at datetime2(3) not null, keyed bit null);
declare @aged table (
  seq bigint not null primary key, ended_at datetime2(3) not null, kept_since datetime2(3) not null,
  source nvarchar(255) collate Latin1_General_100_BIN2 not null,
  message_id nvarchar(255) collate Latin1_General_100_BIN2 not null
);
declare @kept table (seq bigint not null);
declare @old table (seq bigint not null primary key, kept_since datetime2(3) not null);
declare @gone table (seq bigint not null primary key);

if @status = 3
  insert into @scanned (seq, ended_at)
  select top (@limit) d.seq, d.processed_at
  from [$(Schema)].[$(Queue)Done] d with (forceseek, readpast, rowlock, readcommittedlock)
  where d.seq > @after_seq
  order by d.seq;
else
  insert into @scanned (seq, ended_at, keyed)
  select top (@limit) s.seq, s.died_at, s.keyed
  from [$(Schema)].[$(Queue)State] s with (index([$(Queue)_Dead]), forceseek, readpast, rowlock, readcommittedlock)
  where s.status = 4 and s.seq > @after_seq
  order by s.seq;

select @last_seq = max(w.seq), @more = case when count(*) = @limit then 1 else 0 end from @scanned w;

if not exists (select 1 from [$(Schema)].[$(Queue)Messages] m with (forceseek, readpast, rowlock, readcommittedlock) where m.seq = @last_seq and m.first_seen_at < @youngest)
  set @more = 0;

if exists (select 1 from @scanned w where w.keyed = 1)
begin
  insert into @kept (seq)
  select q.seq
  from @scanned w
  inner join [$(Schema)].[$(Queue)PartitionQueue] q with (forceseek, rowlock, readcommittedlock) on q.seq = w.seq
  where w.keyed = 1;

  insert into @kept (seq)
  select c.seq
  from [$(Schema)].[$(Queue)PartitionChanges] c with (readpast, rowlock, readcommittedlock)
  inner join @scanned w on w.seq = c.seq;

  delete from @scanned where seq in (select k.seq from @kept k);
end

-- by the first rule that fits each message; those that are kept for ever are left out
insert into @aged (seq, ended_at, kept_since, source, message_id)
select w.seq, w.ended_at, a.later, m.source, m.message_id
from @scanned w
inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, readpast, rowlock, readcommittedlock) on m.seq = w.seq
cross apply (
  select top (1) r.retention_ms
  from openjson(@rules) with (
    position int, topic nvarchar(255), topic_prefix nvarchar(255), type nvarchar(255), type_prefix nvarchar(255),
    source nvarchar(255), retention_ms float
  ) r
  where (r.topic is null or r.topic collate Latin1_General_100_BIN2 = m.topic)
    and (r.topic_prefix is null or charindex(r.topic_prefix collate Latin1_General_100_BIN2, m.topic) = 1)
    and (r.type is null or r.type collate Latin1_General_100_BIN2 = coalesce(m.type, m.topic))
    and (r.type_prefix is null or charindex(r.type_prefix collate Latin1_General_100_BIN2, coalesce(m.type, m.topic)) = 1)
    and (r.source is null or r.source collate Latin1_General_100_BIN2 = m.source)
  order by r.position
) r
cross apply [$(Schema)].[$(Queue)_After](@now, -r.retention_ms) a
where w.ended_at < @youngest and r.retention_ms is not null;

begin transaction;
if @status = 3
  insert into @old (seq, kept_since)
  select m.seq, w.kept_since
  from @aged w
  inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, xlock, readpast, rowlock, readcommittedlock) on m.source = w.source and m.message_id = w.message_id
  inner join [$(Schema)].[$(Queue)Done] s with (index(1), forceseek, xlock, readpast, rowlock, readcommittedlock) on s.seq = m.seq
  where w.ended_at < w.kept_since and m.last_seen_at < w.kept_since and s.processed_at < w.kept_since option (loop join, force order);
else
  insert into @old (seq, kept_since)
  select m.seq, w.kept_since
  from @aged w
  inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, xlock, readpast, rowlock, readcommittedlock) on m.source = w.source and m.message_id = w.message_id
  inner join [$(Schema)].[$(Queue)State] s with (index(1), forceseek, xlock, readpast, rowlock, readcommittedlock) on s.seq = m.seq
  where w.ended_at < w.kept_since and m.last_seen_at < w.kept_since and s.status = 4 and s.died_at < w.kept_since and (s.locked_until is null or s.locked_until <= @now) option (loop join, force order);

-- the condition is repeated: where UPDLOCK does not lock, it may have been delivered again by now
delete from [$(Schema)].[$(Queue)Messages]
output deleted.seq into @gone (seq)
from @old o, [$(Schema)].[$(Queue)Messages] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Messages].seq = o.seq and [$(Queue)Messages].last_seen_at < o.kept_since;

if @status = 3
  delete from [$(Schema)].[$(Queue)Done]
  from @gone g, [$(Schema)].[$(Queue)Done] with (forceseek, updlock, rowlock, readcommittedlock)
  where [$(Queue)Done].seq = g.seq;
else
  delete from [$(Schema)].[$(Queue)State]
  from @gone g, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
  where [$(Queue)State].seq = g.seq;

delete from [$(Schema)].[$(Queue)Attempts]
from @gone g, [$(Schema)].[$(Queue)Attempts] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Attempts].seq = g.seq;
commit transaction;

select count(*) as deleted, @last_seq as last_seq, @more as more from @gone g;
go

create or alter procedure [$(Schema)].[$(Queue)_Resolve]
  @items nvarchar(max)
as
set nocount, xact_abort on;
select m.seq, m.source, m.message_id
from openjson(@items) with (source nvarchar(255), message_id nvarchar(255)) i
inner join [$(Schema)].[$(Queue)Messages] m with (forceseek)
  on m.source = i.source collate Latin1_General_100_BIN2 and m.message_id = i.message_id collate Latin1_General_100_BIN2;
go

create or alter procedure [$(Schema)].[$(Queue)_Get]
  @source nvarchar(255), @message_id nvarchar(255)
as
set nocount, xact_abort on;
if @@trancount = 0 and exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)
  set lock_timeout 1000;

select k.seq as seq, coalesce(s.status, 3) as status,
  coalesce(s.attempt, d.attempt, 0) as attempt, coalesce(s.crashes, 0) as crashes, s.owner, s.locked_until,
  coalesce(s.reclaimable_at, s.visible_at, d.processed_at, sysutcdatetime()) as next_attempt_at,
  case when s.seq is null then m.given_expires_at else s.expires_at end as expires_at,
  coalesce(s.last_error, d.last_error) as last_error, s.error_group, s.last_attempt_at, s.died_at,
  d.processed_at, d.processed_by, d.resolution, m.*
from [$(Schema)].[$(Queue)Messages] k with (forceseek)
left join [$(Schema)].[$(Queue)State] s with (forceseek) on s.seq = k.seq
left join [$(Schema)].[$(Queue)Done] d with (forceseek) on d.seq = k.seq
cross apply [$(Schema)].[$(Queue)_MessageOf](k.seq) m
-- the state before the done row: an acknowledgement deletes the one and inserts the other
where k.source = @source and k.message_id = @message_id option (loop join, force order);
go

create or alter procedure [$(Schema)].[$(Queue)_Attempts]
  @source nvarchar(255), @message_id nvarchar(255)
as
set nocount, xact_abort on;
if @@trancount = 0 and exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)
  set lock_timeout 1000;

select a.attempt, a.ended_at, a.worker, a.error
from [$(Schema)].[$(Queue)Messages] m with (forceseek)
inner join [$(Schema)].[$(Queue)Attempts] a with (forceseek) on a.seq = m.seq
where m.source = @source and m.message_id = @message_id
order by a.number;
go

create or alter procedure [$(Schema)].[$(Queue)_Discard]
  @items nvarchar(max)
as
set nocount, xact_abort on;
declare @asked table (
  source nvarchar(255) collate Latin1_General_100_BIN2 not null,
  message_id nvarchar(255) collate Latin1_General_100_BIN2 not null
);
declare @found table (place int identity(1, 1) not null primary key, seq bigint not null);
declare @gone table (seq bigint not null primary key, keyed bit null);

insert into @asked (source, message_id)
select k.source, k.message_id
from openjson(@items) with (seq bigint '$') i
inner join [$(Schema)].[$(Queue)Messages] k with (forceseek) on k.seq = i.seq;

begin transaction;
insert into @found (seq)
select m.seq
from (select top (1000000) j.source, j.message_id from @asked j order by j.source, j.message_id) i
inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, updlock, rowlock, readcommittedlock) on m.source = i.source and m.message_id = i.message_id
-- the places ask for the order in which the rows are locked
order by i.source, i.message_id option (loop join, force order);

insert into @gone (seq, keyed)
select f.seq, s.keyed
from (select top (1000000) g.seq from @found g order by g.seq) f
inner join [$(Schema)].[$(Queue)State] s with (index(1), forceseek, updlock, rowlock, readcommittedlock) on s.seq = f.seq
where s.status = 4 option (loop join, force order);

if exists (select 1 from @gone c where c.keyed = 1)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 1 from @gone c
  inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where c.keyed = 1 and m.partition_key is not null order by c.seq;

delete from [$(Schema)].[$(Queue)Messages]
from @gone g, [$(Schema)].[$(Queue)Messages] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Messages].seq = g.seq;

delete from [$(Schema)].[$(Queue)State]
from @gone g, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = g.seq;

delete from [$(Schema)].[$(Queue)Attempts]
from @gone g, [$(Schema)].[$(Queue)Attempts] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Attempts].seq = g.seq;
commit transaction;

select g.seq from @gone g;
go

create or alter procedure [$(Schema)].[$(Queue)_Archive]
  @items nvarchar(max), @who nvarchar(255), @resolution varchar(10)
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @finished table (seq bigint not null primary key, attempt int not null, last_error nvarchar(max) null, keyed bit null);
declare @asked table (
  source nvarchar(255) collate Latin1_General_100_BIN2 not null,
  message_id nvarchar(255) collate Latin1_General_100_BIN2 not null
);
declare @found table (place int identity(1, 1) not null primary key, seq bigint not null);
declare @gone table (seq bigint not null primary key, keyed bit null);

insert into @asked (source, message_id)
select k.source, k.message_id
from openjson(@items) with (seq bigint '$') i
inner join [$(Schema)].[$(Queue)Messages] k with (forceseek) on k.seq = i.seq;

begin transaction;
insert into @found (seq)
select m.seq
from (select top (1000000) j.source, j.message_id from @asked j order by j.source, j.message_id) i
inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, updlock, rowlock, readcommittedlock) on m.source = i.source and m.message_id = i.message_id
-- the places ask for the order in which the rows are locked
order by i.source, i.message_id option (loop join, force order);

insert into @gone (seq, keyed)
select f.seq, s.keyed
from (select top (1000000) g.seq from @found g order by g.seq) f
inner join [$(Schema)].[$(Queue)State] s with (index(1), forceseek, updlock, rowlock, readcommittedlock) on s.seq = f.seq
where s.status = 4 option (loop join, force order);

insert into [$(Schema)].[$(Queue)Archive] (seq, source, message_id, topic, type, partition_key, payload, correlation_id, headers,
  enqueued_at, attempt, last_error, error_group, attempts, died_at, archived_at, archived_by)
select m.seq, m.source, m.message_id, m.topic, m.type, m.partition_key, m.payload, m.correlation_id, m.headers,
  m.first_seen_at, s.attempt, s.last_error, s.error_group, coalesce((
    select a.attempt as attempt, datediff_big(millisecond, '1970-01-01', a.ended_at) as endedAt, lower(a.worker) as worker, a.error as error
    from [$(Schema)].[$(Queue)Attempts] a with (forceseek)
    where a.seq = g.seq
    order by a.number
    for json path, include_null_values
  ), N'[]'), s.died_at, @now, @who
from @gone g
inner join [$(Schema)].[$(Queue)Messages] m with (forceseek) on m.seq = g.seq
inner join [$(Schema)].[$(Queue)State] s with (forceseek) on s.seq = g.seq;

if exists (select 1 from @gone c where c.keyed = 1)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 1 from @gone c
  inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where c.keyed = 1 and m.partition_key is not null order by c.seq;

update [$(Schema)].[$(Queue)Messages]
set payload = N'', headers = null
from @gone g, [$(Schema)].[$(Queue)Messages] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Messages].seq = g.seq;

delete from [$(Schema)].[$(Queue)State]
output deleted.seq, deleted.attempt, deleted.last_error, deleted.keyed into @finished (seq, attempt, last_error, keyed)
from @gone g, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = g.seq;

insert into [$(Schema)].[$(Queue)Done] (seq, processed_at, attempt, last_error, resolution)
select f.seq, @now, f.attempt, f.last_error, @resolution from @finished f;

delete from [$(Schema)].[$(Queue)Attempts]
from @gone g, [$(Schema)].[$(Queue)Attempts] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Attempts].seq = g.seq;
commit transaction;

select g.seq from @gone g;
go

create or alter procedure [$(Schema)].[$(Queue)_TryBegin]
  @source nvarchar(255), @key nvarchar(255), @lease_id uniqueidentifier, @lease_ms float, @holder nvarchar(100)
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime(), @seq bigint;
declare @added table (seq bigint not null primary key);

declare @outermost bit = case when @@trancount = 0 then 1 else 0 end;
if @outermost = 1 begin transaction;
declare @rounds int = 0, @again bit = 1;

while @again = 1
begin
  set @again = 0;

  select @seq = k.seq
  from [$(Schema)].[$(Queue)Keys] k with (index([$(Queue)Keys_Key]), forceseek, updlock, rowlock, readcommittedlock)
  where k.source = @source and k.[key] = @key;

  begin try
    if @outermost = 0 set xact_abort off;

    if @seq is null
      insert into [$(Schema)].[$(Queue)Keys] (source, [key], first_seen_at, last_seen_at)
      output inserted.seq into @added (seq)
      values (@source, @key, @now, @now);
  end try
  begin catch
    set @rounds = @rounds + 1;
    if @outermost = 1 or @rounds = 10 or error_number() not in (2601, 2627)
    begin; throw; end;
    set @again = 1;
  end catch;

  set xact_abort on;
end

if @seq is null select @seq = a.seq from @added a;

set @now = sysutcdatetime();

update [$(Schema)].[$(Queue)Keys] with (updlock, rowlock, readcommittedlock)
set lease_id = case when processed_at is null and (locked_until is null or locked_until <= @now) then @lease_id else lease_id end,
  locked_until = case when processed_at is null and (locked_until is null or locked_until <= @now) then (select a.later from [$(Schema)].[$(Queue)_After](@now, @lease_ms) a) else locked_until end,
  attempt = case when processed_at is null and (locked_until is null or locked_until <= @now) then attempt + 1 else attempt end,
  owner = case when processed_at is null and (locked_until is null or locked_until <= @now) then @holder else owner end,
  last_seen_at = @now
where seq = @seq;

select cast(case when k.processed_at is not null then 1 else 0 end as bit) as processed,
  cast(case when k.processed_at is null and k.lease_id = @lease_id then 1 else 0 end as bit) as mine, k.locked_until
from [$(Schema)].[$(Queue)Keys] k with (forceseek)
where k.seq = @seq;
if @outermost = 1 commit transaction;
go

create or alter procedure [$(Schema)].[$(Queue)_ChangeKey]
  @change varchar(10), @source nvarchar(255), @key nvarchar(255), @lease_id uniqueidentifier, @lease_ms float = null
as
set nocount, xact_abort on;
declare @now datetime2(3), @seq bigint;
declare @changed table (locked_until datetime2(3) null);

begin transaction;
select @seq = k.seq
from [$(Schema)].[$(Queue)Keys] k with (index([$(Queue)Keys_Key]), forceseek, updlock, rowlock, readcommittedlock)
where k.source = @source and k.[key] = @key;

set @now = sysutcdatetime();

update [$(Schema)].[$(Queue)Keys] with (updlock, rowlock, readcommittedlock)
set lease_id = case when @change = 'renew' then lease_id end,
  locked_until = case @change when 'renew' then (select a.later from [$(Schema)].[$(Queue)_After](@now, @lease_ms) a) when 'release' then @now end,
  processed_at = case when @change = 'finish' then coalesce(processed_at, @now) end,
  processed_by = case when @change = 'finish' then @lease_id end
output inserted.locked_until into @changed (locked_until)
where seq = @seq and ((processed_at is null and lease_id = @lease_id and locked_until > @now)
  or (@change = 'finish' and processed_by = @lease_id));
commit transaction;

select c.locked_until from @changed c;
go

create or alter procedure [$(Schema)].[$(Queue)_MarkKey]
  @source nvarchar(255), @key nvarchar(255)
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @seq bigint;
declare @added table (seq bigint not null primary key);

declare @outermost bit = case when @@trancount = 0 then 1 else 0 end;
if @outermost = 1 begin transaction;
declare @rounds int = 0, @again bit = 1;

while @again = 1
begin
  set @again = 0;

  select @seq = k.seq
  from [$(Schema)].[$(Queue)Keys] k with (index([$(Queue)Keys_Key]), forceseek, updlock, rowlock, readcommittedlock)
  where k.source = @source and k.[key] = @key;

  begin try
    if @outermost = 0 set xact_abort off;

    if @seq is null
      insert into [$(Schema)].[$(Queue)Keys] (source, [key], first_seen_at, last_seen_at)
      output inserted.seq into @added (seq)
      values (@source, @key, @now, @now);
  end try
  begin catch
    set @rounds = @rounds + 1;
    if @outermost = 1 or @rounds = 10 or error_number() not in (2601, 2627)
    begin; throw; end;
    set @again = 1;
  end catch;

  set xact_abort on;
end

if @seq is null select @seq = a.seq from @added a;

update [$(Schema)].[$(Queue)Keys] with (updlock, rowlock, readcommittedlock)
set last_seen_at = @now, processed_at = coalesce(processed_at, @now), lease_id = null, locked_until = null
where seq = @seq;
if @outermost = 1 commit transaction;
go

create or alter procedure [$(Schema)].[$(Queue)_InspectKey]
  @source nvarchar(255), @key nvarchar(255)
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
select cast(case when k.processed_at is not null then 1 else 0 end as bit) as processed,
  cast(case when k.locked_until > @now then 1 else 0 end as bit) as held, k.attempt, k.first_seen_at, k.last_seen_at, k.locked_until, k.owner
from [$(Schema)].[$(Queue)Keys] k with (index([$(Queue)Keys_Key]), forceseek)
where k.source = @source and k.[key] = @key;
go

create or alter procedure [$(Schema)].[$(Queue)_PurgeKeys]
  @source nvarchar(255), @retention_ms float, @limit int
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @before datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, -@retention_ms) a);
declare @old table ([key] nvarchar(255) collate Latin1_General_100_BIN2 not null primary key);

insert into @old ([key])
select top (@limit) r.[key]
from [$(Schema)].[$(Queue)Keys] r with (index([$(Queue)Keys_FirstSeen]), readpast, rowlock, readcommittedlock)
where r.source = @source and r.first_seen_at < @before and r.last_seen_at < @before and coalesce(r.processed_at, r.locked_until, r.last_seen_at) < @before
order by r.first_seen_at, r.seq;

delete from [$(Schema)].[$(Queue)Keys]
from @old o, [$(Schema)].[$(Queue)Keys] with (index([$(Queue)Keys_Key]), forceseek, xlock, readpast, rowlock, readcommittedlock)
-- by each key: all keys of the source could be sought, too
where [$(Queue)Keys].source = @source and [$(Queue)Keys].[key] = o.[key] and [$(Queue)Keys].last_seen_at < @before and coalesce([$(Queue)Keys].processed_at, [$(Queue)Keys].locked_until, [$(Queue)Keys].last_seen_at) < @before option (loop join, force order);

select @@rowcount as deleted;
go

create or alter procedure [$(Schema)].[$(Queue)_ReceiveMessages]
  @revive bit = null, @blocks bit = null, @items nvarchar(max) = null, @source nvarchar(255) = null,
  @message_id nvarchar(255) = null, @topic nvarchar(255) = null, @type nvarchar(255) = null,
  @payload nvarchar(max) = null, @correlation_id nvarchar(255) = null, @headers nvarchar(max) = null,
  @due_at datetime2(3) = null, @expires_at datetime2(3) = null, @hash varchar(max) = null,
  @partition_key nvarchar(255) = null, @error nvarchar(max) = null, @error_group varchar(16) = null
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @messages table (
  position int not null primary key, source nvarchar(255) collate Latin1_General_100_BIN2 null,
  message_id nvarchar(255) collate Latin1_General_100_BIN2 null,
  topic nvarchar(255) collate Latin1_General_100_BIN2 null, type nvarchar(255) collate Latin1_General_100_BIN2 null,
  payload nvarchar(max) null, correlation_id nvarchar(255) null, headers nvarchar(max) null, due_at datetime2(3) null,
  expires_at datetime2(3) null, partition_key nvarchar(255) collate Latin1_General_100_BIN2 null,
  hash varchar(max) collate Latin1_General_100_BIN2 null, error nvarchar(max) null,
  error_group varchar(16) collate Latin1_General_100_BIN2 null
);

if @items is null
  insert into @messages (position, source, message_id, topic, type, payload, correlation_id, headers, due_at, expires_at, partition_key, hash, error, error_group)
  values (0, @source, @message_id, @topic, @type, @payload, @correlation_id, @headers, @due_at, @expires_at, @partition_key, @hash, @error, @error_group);
else
  insert into @messages (position, source, message_id, topic, type, payload, correlation_id, headers, due_at, expires_at, partition_key, hash, error, error_group)
  select cast(a.[key] as int), i.source, i.message_id, i.topic, i.type, i.payload, i.correlation_id, i.headers, i.due_at,
    i.expires_at, i.partition_key, i.hash, i.error, i.error_group
  from openjson(@items) a
  cross apply openjson(a.value) with (
    source nvarchar(255), message_id nvarchar(255), topic nvarchar(255), type nvarchar(255), payload nvarchar(max),
    correlation_id nvarchar(255), headers nvarchar(max), due_at datetime2(3), expires_at datetime2(3),
    partition_key nvarchar(255), hash varchar(max), error nvarchar(max), error_group varchar(16)
  ) i;
-- The numbers of the places are given in the order in which the rows are locked. Without them nothing would ask for that order, and a
-- join of many rows would lock first what is in memory.
declare @found table (place int identity(1, 1) not null primary key, seq bigint not null, position int not null);
declare @known table (
  place int identity(1, 1) not null, seq bigint not null primary key, position int not null unique, old_status tinyint not null,
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
  inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, updlock, rowlock, readcommittedlock) on m.source = i.source and m.message_id = i.message_id
  -- always so; it is in no index, so the row itself is locked
  where m.deliveries > 0
  order by i.source, i.message_id option (loop join, force order);

  if @@rowcount > 0
    insert into @known (seq, position, old_status, partition_key, due_at, expires_at, first_seen_at)
    select f.seq, i.position, coalesce(s.status, 3),
      case when s.status = 4 then m.partition_key else i.partition_key end, -- a revived message keeps its key
      m.due_at, m.expires_at, m.first_seen_at
    from (select top (1000000) j.seq, j.position from @found j order by j.seq) f
    left join [$(Schema)].[$(Queue)State] s with (forceseek, updlock, rowlock, readcommittedlock) on s.seq = f.seq
    inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, readcommittedlock) on m.seq = f.seq
    inner join @messages i on i.position = f.position
    order by f.seq option (loop join, force order);

  begin try
    if @outermost = 0 set xact_abort off;

    insert into [$(Schema)].[$(Queue)Messages] (source, message_id, topic, type, payload, hash, correlation_id, headers, due_at, expires_at, partition_key, first_seen_at, last_seen_at, deliveries, content_changed)
    output inserted.seq, inserted.source, inserted.message_id, inserted.partition_key, inserted.due_at, inserted.expires_at,
      inserted.deliveries, inserted.content_changed into @received (seq, source, message_id, partition_key, due_at, expires_at, deliveries, content_changed)
    select i.source, i.message_id, i.topic, i.type, i.payload, i.hash, i.correlation_id, i.headers, i.due_at, i.expires_at, i.partition_key, @now, @now, 1, 0
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
  inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where c.partition_key is not null and m.partition_key is not null order by c.seq;

if exists (select 1 from @known)
begin
  update [$(Schema)].[$(Queue)Messages]
  set last_seen_at = @now, deliveries = [$(Queue)Messages].deliveries + 1, content_changed = case when ([$(Queue)Messages].hash <> i.hash and left([$(Queue)Messages].hash, charindex(':', [$(Queue)Messages].hash)) = left(i.hash, charindex(':', i.hash))) then 1 else 0 end
  output inserted.seq, inserted.source, inserted.message_id, inserted.partition_key, inserted.due_at, inserted.expires_at,
  inserted.deliveries, inserted.content_changed into @received (seq, source, message_id, partition_key, due_at, expires_at, deliveries, content_changed)
  from @known k, @messages i, [$(Schema)].[$(Queue)Messages] with (forceseek, updlock, rowlock, readcommittedlock)
  where i.position = k.position and [$(Queue)Messages].seq = k.seq;

  -- messages that were purged between the two statements, on a server that ignores updlock
  delete from @known where seq not in (select a.seq from @received a);

  -- a done message keeps the content that was handled; any other gets the newest, but not from a call without @revive, which
  -- is the plain one of another service: it fills in a message that was only seen, and rewrites none
  update [$(Schema)].[$(Queue)Messages]
  set topic = i.topic, type = i.type, payload = i.payload, hash = coalesce(i.hash, [$(Queue)Messages].hash), correlation_id = i.correlation_id, headers = i.headers, due_at = i.due_at, expires_at = i.expires_at
  from @known k, @messages i, [$(Schema)].[$(Queue)Messages] with (forceseek, updlock, rowlock, readcommittedlock)
  where i.position = k.position and [$(Queue)Messages].seq = k.seq and k.old_status <> 3
    and (@revive is not null or k.old_status in (0, 2))
    and (([$(Queue)Messages].topic collate Latin1_General_100_BIN2 <> i.topic collate Latin1_General_100_BIN2 or coalesce(datalength([$(Queue)Messages].topic), -1) <> coalesce(datalength(i.topic), -1))
      or ([$(Queue)Messages].type collate Latin1_General_100_BIN2 <> i.type collate Latin1_General_100_BIN2 or coalesce(datalength([$(Queue)Messages].type), -1) <> coalesce(datalength(i.type), -1))
      or ([$(Queue)Messages].payload collate Latin1_General_100_BIN2 <> i.payload collate Latin1_General_100_BIN2 or coalesce(datalength([$(Queue)Messages].payload), -1) <> coalesce(datalength(i.payload), -1))
      or (i.hash is not null and ([$(Queue)Messages].hash is null or [$(Queue)Messages].hash <> i.hash))
      or ([$(Queue)Messages].correlation_id collate Latin1_General_100_BIN2 <> i.correlation_id collate Latin1_General_100_BIN2 or coalesce(datalength([$(Queue)Messages].correlation_id), -1) <> coalesce(datalength(i.correlation_id), -1))
      or ([$(Queue)Messages].headers collate Latin1_General_100_BIN2 <> i.headers collate Latin1_General_100_BIN2 or coalesce(datalength([$(Queue)Messages].headers), -1) <> coalesce(datalength(i.headers), -1))
      or not exists (select [$(Queue)Messages].due_at intersect select i.due_at)
      or not exists (select [$(Queue)Messages].expires_at intersect select i.expires_at));

  -- a lease stays as it is, and a back-off that has begun is not cut short
  update [$(Schema)].[$(Queue)State]
  set visible_at = case
      when [$(Queue)State].locked_until is not null then [$(Queue)State].visible_at
      when [$(Queue)State].attempt = 0 then coalesce(i.due_at, k.first_seen_at)
      when i.due_at > [$(Queue)State].visible_at then i.due_at
      else [$(Queue)State].visible_at
    end,
    reclaimable_at = case when [$(Queue)State].locked_until is null and i.due_at > [$(Queue)State].reclaimable_at then i.due_at else [$(Queue)State].reclaimable_at end,
    -- an expiry that a replay removed is not set again by the same delivery
    expires_at = case when not exists (select k.expires_at intersect select i.expires_at) then i.expires_at else [$(Queue)State].expires_at end
  from @known k, @messages i, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
  where i.position = k.position and [$(Queue)State].seq = k.seq and [$(Queue)State].status in (1, 5) and @revive is not null
    and (not exists (select k.due_at intersect select i.due_at) or not exists (select k.expires_at intersect select i.expires_at));

  update [$(Schema)].[$(Queue)State]
  set status = case when k.partition_key is null then 1 else 5 end,
    keyed = case when k.partition_key is not null then 1 end, attempt = 0, crashes = 0, owner = null, locked_until = null,
    reclaimable_at = null, visible_at = coalesce(i.due_at, @now), expires_at = i.expires_at
  output inserted.seq, inserted.keyed into @enqueued (seq, keyed)
  from @known k, @messages i, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
  where i.position = k.position and [$(Queue)State].seq = k.seq
    and ([$(Queue)State].status in (0, 2) or ([$(Queue)State].status = 4 and @revive = 1));

  if exists (select 1 from @enqueued w where w.keyed = 1)
    update [$(Schema)].[$(Queue)Messages]
    set partition_key = k.partition_key
    from @enqueued w, @known k, [$(Schema)].[$(Queue)Messages] with (forceseek, updlock, rowlock, readcommittedlock)
    where k.seq = w.seq and w.keyed = 1 and [$(Queue)Messages].seq = w.seq;

  if exists (select 1 from @enqueued c where c.keyed = 1)
    insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
    select c.seq, m.partition_key, 0 from @enqueued c
    inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
    where c.keyed = 1 and m.partition_key is not null order by c.seq;
end

if exists (select 1 from @messages i where i.error is not null)
begin
  update [$(Schema)].[$(Queue)State]
  set status = 4, owner = null, locked_until = null, reclaimable_at = null,
    last_error = nullif(i.error, N''), error_group = i.error_group, died_at = @now
  output inserted.seq, inserted.keyed into @buried (seq, keyed)
  from @messages i, @received a, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
  where i.error is not null and a.source = i.source and a.message_id = i.message_id and [$(Queue)State].seq = a.seq
    and (a.deliveries = 1 or (a.content_changed = 1 and @revive is not null) or exists (select 1 from @enqueued w where w.seq = a.seq));

  if exists (select 1 from @buried c where @blocks = 0 and c.keyed = 1)
    insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
    select c.seq, m.partition_key, 1 from @buried c
    inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
    where @blocks = 0 and c.keyed = 1 and m.partition_key is not null order by c.seq;
end
if @outermost = 1 commit transaction;

select case
    when a.content_changed = 1 then 'conflict'
    when a.deliveries = 1 or w.seq is not null then 'enqueued'
    when k.old_status = 3 then 'done'
    when k.old_status = 4 then 'dead'
    else 'duplicate'
  end as outcome,
  a.source as source, a.message_id as message_id, cast(case when b.seq is not null then 1 else 0 end as bit) as buried
from @received a
left join @buried b on b.seq = a.seq
left join @enqueued w on w.seq = a.seq
left join @known k on k.seq = a.seq;
go

create or alter procedure [$(Schema)].[$(Queue)_Receive]
  @source nvarchar(4000) = null, @message_id nvarchar(4000) = null, @topic nvarchar(4000) = null,
  @type nvarchar(4000) = null, @payload nvarchar(max) = null, @correlation_id nvarchar(4000) = null,
  @headers nvarchar(max) = null, @due_at datetime2(3) = null, @expires_at datetime2(3) = null, @hash varchar(max) = null,
  @partition_key nvarchar(4000) = null
as
set nocount, xact_abort on;
if datalength(@correlation_id) = 0 set @correlation_id = null;
set @hash = lower(@hash collate Latin1_General_100_BIN2);
declare @refusal nvarchar(200) = case
  when @source is null or right(@source, 1) = N' ' collate Latin1_General_100_BIN2 or len(@source) > 255 then N'source must have 1 to 255 characters, and no space at its end.'
  when @message_id is null or right(@message_id, 1) = N' ' collate Latin1_General_100_BIN2 or len(@message_id) > 255 then N'message_id must have 1 to 255 characters, and no space at its end.'
  when @topic is null or right(@topic, 1) = N' ' collate Latin1_General_100_BIN2 or len(@topic) > 255 then N'topic must have 1 to 255 characters, and no space at its end.'
  when right(@type, 1) = N' ' collate Latin1_General_100_BIN2 or len(@type) > 255 then N'type must have 1 to 255 characters, and no space at its end.'
  when right(@partition_key, 1) = N' ' collate Latin1_General_100_BIN2 or len(@partition_key) > 255 then N'partition_key must have 1 to 255 characters, and no space at its end.'
  when right(@correlation_id, 1) = N' ' collate Latin1_General_100_BIN2 or len(@correlation_id) > 255 then N'correlation_id must have 1 to 255 characters, and no space at its end.'
  when @payload is null then N'payload must be given; it may be empty.'
  when @due_at not between '1970-01-01' and '9998-01-01' then N'due_at must be a time between the years 1970 and 9998.'
  when @expires_at not between '1970-01-01' and '9998-01-01' then N'expires_at must be a time between the years 1970 and 9998.'
  when substring(@hash, charindex(':', @hash) + 1, datalength(@hash)) collate Latin1_General_100_BIN2 like '%[^0-9a-f]%' or (datalength(@hash) - charindex(':', @hash)) % 2 = 1 or right(@hash, 1) = ':' or charindex(':', @hash) = 1 or charindex(':', @hash) > 33 or replace(replace(left(@hash, charindex(':', @hash)), '_', ''), '-', '') collate Latin1_General_100_BIN2 like '%[^0-9a-z:]%' or left(@hash, 1) in ('_', '-') then N'hash must be an algorithm, a colon and hexadecimal digits, such as sha256:9f86d081, or only the digits.'
end;
-- not every server that speaks T-SQL can read an escaped NUL
if charindex(N'\u0000', @headers) = 0
begin
  if isjson(@headers) = 0 set @refusal = N'headers must be a JSON object whose values are strings.';
  else if not exists (select 1 from openjson(concat(N'[', @headers, N']')) h where h.type = 5)
    or exists (select 1 from openjson(@headers) h where h.type <> 1)
    set @refusal = N'headers must be a JSON object whose values are strings.';
end
if @refusal is not null
begin
  -- the caller's transaction stays as it is
  set xact_abort off;
  throw 51022, @refusal, 1;
end

exec [$(Schema)].[$(Queue)_ReceiveMessages]
  @source = @source, @message_id = @message_id, @topic = @topic, @type = @type, @payload = @payload,
  @correlation_id = @correlation_id, @headers = @headers, @due_at = @due_at, @expires_at = @expires_at, @hash = @hash,
  @partition_key = @partition_key;
go

create or alter procedure [$(Schema)].[$(Queue)_AlreadyProcessed]
  @source nvarchar(255), @message_id nvarchar(255), @hash varchar(max)
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @seq bigint, @old_status tinyint, @content_changed bit = 0;
declare @added table (seq bigint not null primary key);

declare @outermost bit = case when @@trancount = 0 then 1 else 0 end;
if @outermost = 1 begin transaction;
declare @rounds int = 0, @again bit = 1;

while @again = 1
begin
  set @again = 0;

  select @seq = m.seq, @old_status = coalesce(s.status, 3), @content_changed = case when (m.hash <> @hash and left(m.hash, charindex(':', m.hash)) = left(@hash, charindex(':', @hash))) then 1 else 0 end
  from [$(Schema)].[$(Queue)Messages] m with (forceseek, updlock, rowlock, readcommittedlock)
  left join [$(Schema)].[$(Queue)State] s with (forceseek, updlock, rowlock, readcommittedlock) on s.seq = m.seq
  where m.source = @source and m.message_id = @message_id;

  begin try
    if @outermost = 0 set xact_abort off;

    if @seq is null
      insert into [$(Schema)].[$(Queue)Messages] (source, message_id, topic, payload, hash,
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
  update [$(Schema)].[$(Queue)Messages] with (updlock, rowlock, readcommittedlock)
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
  @source nvarchar(255), @message_id nvarchar(255), @status tinyint, @error nvarchar(max), @error_group varchar(16),
  @blocks bit
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @seq bigint, @old_status tinyint;
declare @added table (seq bigint not null primary key);
declare @finished table (seq bigint not null primary key, attempt int not null, last_error nvarchar(max) null, keyed bit null);

declare @outermost bit = case when @@trancount = 0 then 1 else 0 end;
if @outermost = 1 begin transaction;
declare @rounds int = 0, @again bit = 1;

while @again = 1
begin
  set @again = 0;

  select @seq = m.seq, @old_status = coalesce(s.status, 3)
  from [$(Schema)].[$(Queue)Messages] m with (forceseek, updlock, rowlock, readcommittedlock)
  left join [$(Schema)].[$(Queue)State] s with (forceseek, updlock, rowlock, readcommittedlock) on s.seq = m.seq
  where m.source = @source and m.message_id = @message_id;

  begin try
    if @outermost = 0 set xact_abort off;

    if @seq is null
      insert into [$(Schema)].[$(Queue)Messages] (source, message_id, topic, payload, hash,
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

if @seq is null
begin
  select @seq = a.seq from @added a;
  insert into [$(Schema)].[$(Queue)State] (seq, status, visible_at) values (@seq, 0, @now);
end
else
  update [$(Schema)].[$(Queue)Messages] with (updlock, rowlock, readcommittedlock) set last_seen_at = @now where seq = @seq;

if @status = 3
begin
  delete from [$(Schema)].[$(Queue)State]
  output deleted.seq, deleted.attempt, deleted.last_error, deleted.keyed into @finished (seq, attempt, last_error, keyed)
  from [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
  where [$(Queue)State].seq = @seq;

  insert into [$(Schema)].[$(Queue)Done] (seq, processed_at, attempt, last_error)
  select f.seq, @now, f.attempt, coalesce(@error, f.last_error) from @finished f;
end
else
  update [$(Schema)].[$(Queue)State] with (updlock, rowlock, readcommittedlock)
  set status = @status, owner = null, locked_until = null, reclaimable_at = null,
    last_error = coalesce(@error, last_error), error_group = case when @error is null then error_group else @error_group end,
    died_at = case when @status = 4 then @now else died_at end
  output inserted.seq, inserted.attempt, inserted.keyed into @finished (seq, attempt, keyed)
  where seq = @seq and (@status <> 2 or status = 0);

if exists (select 1 from @finished c where c.keyed = 1 and (@status = 3 or (@status = 4 and @blocks = 0)))
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 1 from @finished c
  inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where c.keyed = 1 and (@status = 3 or (@status = 4 and @blocks = 0)) and m.partition_key is not null order by c.seq;
if @outermost = 1 commit transaction;

select f.seq from @finished f;
go

-- The outbox
:setvar Queue Outbox
:setvar Kind outbox
:setvar CreatedAt created_at
:setvar SeenAt created_at
go

if not exists (
  select 1 from [$(Schema)].[oncebox_migrations] where queue = N'outbox:$(Queue)' and number = 1
)
begin
  begin transaction;

  create table [$(Schema)].[$(Queue)Messages] (
    seq bigint identity(1, 1) not null,
    id uniqueidentifier not null,
    message_id uniqueidentifier not null,
    topic nvarchar(255) collate Latin1_General_100_BIN2 not null,
    -- of the event; null where it is the topic
    type nvarchar(255) collate Latin1_General_100_BIN2 null,
    partition_key nvarchar(255) collate Latin1_General_100_BIN2 null,
    payload nvarchar(max) not null,
    correlation_id nvarchar(255) collate Latin1_General_100_BIN2 null,
    headers nvarchar(max) null,
    due_at datetime2(3) null,
    expires_at datetime2(3) null,
    created_at datetime2(3) not null,
    natural_key nvarchar(255) collate Latin1_General_100_BIN2 null,
    constraint [$(Queue)Messages_PK] primary key clustered (seq),
    constraint [$(Queue)_Key] unique nonclustered (id)
  );
  create unique index [$(Queue)_NaturalKey] on [$(Schema)].[$(Queue)Messages] (topic, natural_key) include (id) where natural_key is not null;
  create table [$(Schema)].[$(Queue)Archive] (
    seq bigint not null,
    id uniqueidentifier not null,
    message_id uniqueidentifier not null,
    topic nvarchar(255) collate Latin1_General_100_BIN2 not null,
    type nvarchar(255) collate Latin1_General_100_BIN2 null,
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
end
go

create or alter view [$(Schema)].[$(Queue)] as
select
  m.id as Id, m.topic as Topic, m.payload as Payload, cast(m.created_at as datetimeoffset(3)) as CreatedAt,
  cast(case
    when s.seq is null then 2
    when s.status = 4 then 3
    when s.locked_until is not null then 1
    else 0
  end as tinyint) as Status,
  s.locked_until as LockedUntil, s.owner as OwnerToken,
  cast(case when s.seq is null then 1 else 0 end as bit) as IsProcessed,
  cast(d.processed_at as datetimeoffset(3)) as ProcessedAt, d.processed_by as ProcessedBy,
  coalesce(s.attempt, d.attempt) as RetryCount, coalesce(s.last_error, d.last_error) as LastError,
  cast(coalesce(s.reclaimable_at, s.visible_at, d.processed_at) as datetimeoffset(3)) as NextAttemptAt,
  m.message_id as MessageId, m.correlation_id as CorrelationId, cast(m.due_at as datetimeoffset(3)) as DueTimeUtc,
  case
    when s.seq is null then 'done'
    when s.status = 4 then 'dead'
    when s.locked_until is not null then 'running'
    when exists (select 1 from [$(Schema)].[$(Queue)Controls] c where c.paused = 1 and (c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic))) then 'paused'
    when s.attempt > 0 then 'retrying'
    else 'waiting'
  end as Phase,
  case when s.seq is null then m.expires_at else s.expires_at end as ExpiresAt, m.partition_key as PartitionKey,
  coalesce(m.type, m.topic) as Type,
  coalesce(d.processed_at, s.last_attempt_at) as LastAttemptAt, m.headers as Headers, m.natural_key as NaturalKey
from [$(Schema)].[$(Queue)Messages] m
left join [$(Schema)].[$(Queue)State] s on s.seq = m.seq
left join [$(Schema)].[$(Queue)Done] d on d.seq = m.seq
go

create or alter function [$(Schema)].[$(Queue)_MessageOf] (@seq bigint)
returns table as return
select m.topic, m.type, m.payload, m.partition_key, m.headers, m.correlation_id, m.due_at, m.expires_at as given_expires_at,
  m.id, m.message_id, m.created_at, m.natural_key
from [$(Schema)].[$(Queue)Messages] m with (forceseek)
where m.seq = @seq
go

create or alter function [$(Schema)].[$(Queue)_KeyOf] (@seq bigint)
returns table as return
select cast(null as nvarchar(255)) collate Latin1_General_100_BIN2 as source, m.id, m.topic
from [$(Schema)].[$(Queue)Messages] m with (forceseek)
where m.seq = @seq
go

:r $(Folder)/sqlserver-queue.sql

create or alter procedure [$(Schema)].[$(Queue)_Purge]
  @limit int, @rules nvarchar(max), @shortest_ms float, @after_seq bigint, @status tinyint
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @youngest datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, -@shortest_ms) a);
declare @last_seq bigint, @more bit;
declare @scanned table (seq bigint not null primary key, ended_at datetime2(3) not null, keyed bit null);
declare @aged table (
  seq bigint not null primary key, ended_at datetime2(3) not null, kept_since datetime2(3) not null,
  id uniqueidentifier not null,
  message_id uniqueidentifier not null
);
declare @kept table (seq bigint not null);
declare @old table (seq bigint not null primary key, kept_since datetime2(3) not null);
declare @gone table (seq bigint not null primary key);

if @status = 3
  insert into @scanned (seq, ended_at)
  select top (@limit) d.seq, d.processed_at
  from [$(Schema)].[$(Queue)Done] d with (forceseek, readpast, rowlock, readcommittedlock)
  where d.seq > @after_seq
  order by d.seq;
else
  insert into @scanned (seq, ended_at, keyed)
  select top (@limit) s.seq, s.died_at, s.keyed
  from [$(Schema)].[$(Queue)State] s with (index([$(Queue)_Dead]), forceseek, readpast, rowlock, readcommittedlock)
  where s.status = 4 and s.seq > @after_seq
  order by s.seq;

select @last_seq = max(w.seq), @more = case when count(*) = @limit then 1 else 0 end from @scanned w;

if not exists (select 1 from [$(Schema)].[$(Queue)Messages] m with (forceseek, readpast, rowlock, readcommittedlock) where m.seq = @last_seq and m.created_at < @youngest)
  set @more = 0;

if exists (select 1 from @scanned w where w.keyed = 1)
begin
  insert into @kept (seq)
  select q.seq
  from @scanned w
  inner join [$(Schema)].[$(Queue)PartitionQueue] q with (forceseek, rowlock, readcommittedlock) on q.seq = w.seq
  where w.keyed = 1;

  insert into @kept (seq)
  select c.seq
  from [$(Schema)].[$(Queue)PartitionChanges] c with (readpast, rowlock, readcommittedlock)
  inner join @scanned w on w.seq = c.seq;

  delete from @scanned where seq in (select k.seq from @kept k);
end

-- by the first rule that fits each message; those that are kept for ever are left out
insert into @aged (seq, ended_at, kept_since, id, message_id)
select w.seq, w.ended_at, a.later, m.id, m.message_id
from @scanned w
inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, readpast, rowlock, readcommittedlock) on m.seq = w.seq
cross apply (
  select top (1) r.retention_ms
  from openjson(@rules) with (
    position int, topic nvarchar(255), topic_prefix nvarchar(255), type nvarchar(255), type_prefix nvarchar(255),
    source nvarchar(255), retention_ms float
  ) r
  where (r.topic is null or r.topic collate Latin1_General_100_BIN2 = m.topic)
    and (r.topic_prefix is null or charindex(r.topic_prefix collate Latin1_General_100_BIN2, m.topic) = 1)
    and (r.type is null or r.type collate Latin1_General_100_BIN2 = coalesce(m.type, m.topic))
    and (r.type_prefix is null or charindex(r.type_prefix collate Latin1_General_100_BIN2, coalesce(m.type, m.topic)) = 1)
    and (r.source is null or r.source collate Latin1_General_100_BIN2 = N'')
  order by r.position
) r
cross apply [$(Schema)].[$(Queue)_After](@now, -r.retention_ms) a
where w.ended_at < @youngest and r.retention_ms is not null;

begin transaction;
if @status = 3
  insert into @old (seq, kept_since)
  select m.seq, w.kept_since
  from @aged w
  inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, xlock, readpast, rowlock, readcommittedlock) on m.id = w.id
  inner join [$(Schema)].[$(Queue)Done] s with (index(1), forceseek, xlock, readpast, rowlock, readcommittedlock) on s.seq = m.seq
  where w.ended_at < w.kept_since and m.created_at < w.kept_since and s.processed_at < w.kept_since option (loop join, force order);
else
  insert into @old (seq, kept_since)
  select m.seq, w.kept_since
  from @aged w
  inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, xlock, readpast, rowlock, readcommittedlock) on m.id = w.id
  inner join [$(Schema)].[$(Queue)State] s with (index(1), forceseek, xlock, readpast, rowlock, readcommittedlock) on s.seq = m.seq
  where w.ended_at < w.kept_since and m.created_at < w.kept_since and s.status = 4 and s.died_at < w.kept_since and (s.locked_until is null or s.locked_until <= @now) option (loop join, force order);

-- the condition is repeated: where UPDLOCK does not lock, it may have been delivered again by now
delete from [$(Schema)].[$(Queue)Messages]
output deleted.seq into @gone (seq)
from @old o, [$(Schema)].[$(Queue)Messages] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Messages].seq = o.seq and [$(Queue)Messages].created_at < o.kept_since;

if @status = 3
  delete from [$(Schema)].[$(Queue)Done]
  from @gone g, [$(Schema)].[$(Queue)Done] with (forceseek, updlock, rowlock, readcommittedlock)
  where [$(Queue)Done].seq = g.seq;
else
  delete from [$(Schema)].[$(Queue)State]
  from @gone g, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
  where [$(Queue)State].seq = g.seq;

delete from [$(Schema)].[$(Queue)Attempts]
from @gone g, [$(Schema)].[$(Queue)Attempts] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Attempts].seq = g.seq;
commit transaction;

select count(*) as deleted, @last_seq as last_seq, @more as more from @gone g;
go

create or alter procedure [$(Schema)].[$(Queue)_Resolve]
  @items nvarchar(max)
as
set nocount, xact_abort on;
select m.seq, m.id
from openjson(@items) with (id uniqueidentifier) i
inner join [$(Schema)].[$(Queue)Messages] m with (forceseek) on m.id = i.id;
go

create or alter procedure [$(Schema)].[$(Queue)_Get]
  @id uniqueidentifier
as
set nocount, xact_abort on;
if @@trancount = 0 and exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)
  set lock_timeout 1000;

select k.seq as seq, coalesce(s.status, 3) as status,
  coalesce(s.attempt, d.attempt, 0) as attempt, coalesce(s.crashes, 0) as crashes, s.owner, s.locked_until,
  coalesce(s.reclaimable_at, s.visible_at, d.processed_at, sysutcdatetime()) as next_attempt_at,
  case when s.seq is null then m.given_expires_at else s.expires_at end as expires_at,
  coalesce(s.last_error, d.last_error) as last_error, s.error_group, s.last_attempt_at, s.died_at,
  d.processed_at, d.processed_by, d.resolution, m.*
from [$(Schema)].[$(Queue)Messages] k with (forceseek)
left join [$(Schema)].[$(Queue)State] s with (forceseek) on s.seq = k.seq
left join [$(Schema)].[$(Queue)Done] d with (forceseek) on d.seq = k.seq
cross apply [$(Schema)].[$(Queue)_MessageOf](k.seq) m
-- the state before the done row: an acknowledgement deletes the one and inserts the other
where k.id = @id option (loop join, force order);
go

create or alter procedure [$(Schema)].[$(Queue)_Attempts]
  @id uniqueidentifier
as
set nocount, xact_abort on;
if @@trancount = 0 and exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)
  set lock_timeout 1000;

select a.attempt, a.ended_at, a.worker, a.error
from [$(Schema)].[$(Queue)Messages] m with (forceseek)
inner join [$(Schema)].[$(Queue)Attempts] a with (forceseek) on a.seq = m.seq
where m.id = @id
order by a.number;
go

create or alter procedure [$(Schema)].[$(Queue)_Discard]
  @items nvarchar(max)
as
set nocount, xact_abort on;
declare @asked table (
  id uniqueidentifier not null,
  message_id uniqueidentifier not null
);
declare @found table (place int identity(1, 1) not null primary key, seq bigint not null);
declare @gone table (seq bigint not null primary key, keyed bit null);

insert into @asked (id, message_id)
select k.id, k.message_id
from openjson(@items) with (seq bigint '$') i
inner join [$(Schema)].[$(Queue)Messages] k with (forceseek) on k.seq = i.seq;

begin transaction;
insert into @found (seq)
select m.seq
from (select top (1000000) j.id, j.message_id from @asked j order by j.id, j.message_id) i
inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, updlock, rowlock, readcommittedlock) on m.id = i.id
-- the places ask for the order in which the rows are locked
order by i.id, i.message_id option (loop join, force order);

insert into @gone (seq, keyed)
select f.seq, s.keyed
from (select top (1000000) g.seq from @found g order by g.seq) f
inner join [$(Schema)].[$(Queue)State] s with (index(1), forceseek, updlock, rowlock, readcommittedlock) on s.seq = f.seq
where s.status = 4 option (loop join, force order);

if exists (select 1 from @gone c where c.keyed = 1)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 1 from @gone c
  inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where c.keyed = 1 and m.partition_key is not null order by c.seq;

delete from [$(Schema)].[$(Queue)Messages]
from @gone g, [$(Schema)].[$(Queue)Messages] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Messages].seq = g.seq;

delete from [$(Schema)].[$(Queue)State]
from @gone g, [$(Schema)].[$(Queue)State] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)State].seq = g.seq;

delete from [$(Schema)].[$(Queue)Attempts]
from @gone g, [$(Schema)].[$(Queue)Attempts] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Attempts].seq = g.seq;
commit transaction;

select g.seq from @gone g;
go

create or alter procedure [$(Schema)].[$(Queue)_Archive]
  @items nvarchar(max), @who nvarchar(255), @resolution varchar(10)
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @asked table (
  id uniqueidentifier not null,
  message_id uniqueidentifier not null
);
declare @found table (place int identity(1, 1) not null primary key, seq bigint not null);
declare @gone table (seq bigint not null primary key, keyed bit null);

insert into @asked (id, message_id)
select k.id, k.message_id
from openjson(@items) with (seq bigint '$') i
inner join [$(Schema)].[$(Queue)Messages] k with (forceseek) on k.seq = i.seq;

begin transaction;
insert into @found (seq)
select m.seq
from (select top (1000000) j.id, j.message_id from @asked j order by j.id, j.message_id) i
inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, updlock, rowlock, readcommittedlock) on m.id = i.id
-- the places ask for the order in which the rows are locked
order by i.id, i.message_id option (loop join, force order);

insert into @gone (seq, keyed)
select f.seq, s.keyed
from (select top (1000000) g.seq from @found g order by g.seq) f
inner join [$(Schema)].[$(Queue)State] s with (index(1), forceseek, updlock, rowlock, readcommittedlock) on s.seq = f.seq
where s.status = 4 option (loop join, force order);

insert into [$(Schema)].[$(Queue)Archive] (seq, id, message_id, topic, type, partition_key, payload, correlation_id, headers,
  enqueued_at, attempt, last_error, error_group, attempts, died_at, archived_at, archived_by)
select m.seq, m.id, m.message_id, m.topic, m.type, m.partition_key, m.payload, m.correlation_id, m.headers,
  m.created_at, s.attempt, s.last_error, s.error_group, coalesce((
    select a.attempt as attempt, datediff_big(millisecond, '1970-01-01', a.ended_at) as endedAt, lower(a.worker) as worker, a.error as error
    from [$(Schema)].[$(Queue)Attempts] a with (forceseek)
    where a.seq = g.seq
    order by a.number
    for json path, include_null_values
  ), N'[]'), s.died_at, @now, @who
from @gone g
inner join [$(Schema)].[$(Queue)Messages] m with (forceseek) on m.seq = g.seq
inner join [$(Schema)].[$(Queue)State] s with (forceseek) on s.seq = g.seq;

set @items = (select N'[' + string_agg(cast(g.seq as nvarchar(max)), N',') + N']' from @gone g);
exec [$(Schema)].[$(Queue)_Discard] @items = @items;
commit transaction;
go

create or alter procedure [$(Schema)].[$(Queue)_EnqueueMessages]
  @items nvarchar(max) = null, @id uniqueidentifier = null output, @message_id uniqueidentifier = null,
  @topic nvarchar(255) = null, @type nvarchar(255) = null, @payload nvarchar(max) = null,
  @correlation_id nvarchar(255) = null, @headers nvarchar(max) = null, @due_at datetime2(3) = null,
  @expires_at datetime2(3) = null, @partition_key nvarchar(255) = null, @natural_key nvarchar(255) = null,
  @handled nvarchar(max) = null, @own bit = 0
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @messages table (
  position int not null primary key, id uniqueidentifier null, message_id uniqueidentifier null,
  topic nvarchar(255) collate Latin1_General_100_BIN2 null, type nvarchar(255) collate Latin1_General_100_BIN2 null,
  payload nvarchar(max) null, correlation_id nvarchar(255) null, headers nvarchar(max) null, due_at datetime2(3) null,
  expires_at datetime2(3) null, partition_key nvarchar(255) collate Latin1_General_100_BIN2 null,
  natural_key nvarchar(255) collate Latin1_General_100_BIN2 null
);

if @items is null
  insert into @messages (position, id, message_id, topic, type, payload, correlation_id, headers, due_at, expires_at, partition_key, natural_key)
  values (0, @id, @message_id, @topic, @type, @payload, @correlation_id, @headers, @due_at, @expires_at, @partition_key, @natural_key);
else
  insert into @messages (position, id, message_id, topic, type, payload, correlation_id, headers, due_at, expires_at, partition_key, natural_key)
  select cast(a.[key] as int), i.id, i.message_id, i.topic, i.type, i.payload, i.correlation_id, i.headers, i.due_at,
    i.expires_at, i.partition_key, i.natural_key
  from openjson(@items) a
  cross apply openjson(a.value) with (
    id uniqueidentifier, message_id uniqueidentifier, topic nvarchar(255), type nvarchar(255), payload nvarchar(max),
    correlation_id nvarchar(255), headers nvarchar(max), due_at datetime2(3), expires_at datetime2(3),
    partition_key nvarchar(255), natural_key nvarchar(255)
  ) i;
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

-- what a message led to that was not acknowledged is left out
if @handled is not null
  delete from @messages
  where position in (
    select cast(a.[key] as int)
    from openjson(@items) a
    where cast(json_value(a.value, '$.handled') as bigint) not in (select h.seq from openjson(@handled) with (seq bigint) h)
  );

declare @rounds int = 0, @again bit = 1;

while @again = 1
begin
  set @again = 0;

  delete from @known;

  if exists (select 1 from @messages i where i.natural_key is not null)
    insert into @known (position, id)
    select i.position, m.id
    from (select top (1000000) j.position, j.topic, j.natural_key from @messages j order by j.topic, j.natural_key) i
    inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, readcommittedlock)
      on m.topic = i.topic and m.natural_key = i.natural_key and m.natural_key is not null;

  begin try
    if @outermost = 0 and @own = 0 set xact_abort off;

    insert into [$(Schema)].[$(Queue)Messages] (id, message_id, topic, type, payload, correlation_id, headers, due_at, expires_at, partition_key, natural_key, created_at)
    output inserted.seq, inserted.partition_key, inserted.due_at, inserted.expires_at into @added (seq, partition_key, due_at, expires_at)
    select i.id, i.message_id, i.topic, i.type, i.payload, i.correlation_id, i.headers, i.due_at, i.expires_at, i.partition_key, i.natural_key, @now
    from @messages i
    where not exists (select 1 from [$(Schema)].[$(Queue)Messages] m with (forceseek, readcommittedlock) where m.id = i.id)
      and not exists (select 1 from @known k where k.position = i.position)
    order by i.position;
  end try
  begin catch
    set @rounds = @rounds + 1;
    if @outermost = 1 or @own = 1 or @rounds = 10 or error_number() not in (2601, 2627)
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
  inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where c.partition_key is not null and m.partition_key is not null order by c.seq;
if @outermost = 1 commit transaction;

if @handled is not null
  select h.seq, cast(null as uniqueidentifier) as id, cast(null as uniqueidentifier) as known_id
  from openjson(@handled) with (seq bigint) h
  union all
  select cast(null as bigint), i.id, k.id from @known k inner join @messages i on i.position = k.position;
else if @items is null
  select @id = k.id from @known k;
else if exists (select 1 from @known)
  select i.id, k.id as known_id from @known k inner join @messages i on i.position = k.position;
go

create or alter procedure [$(Schema)].[$(Queue)_Enqueue]
  @id uniqueidentifier = null output, @message_id uniqueidentifier = null, @topic nvarchar(4000) = null,
  @type nvarchar(4000) = null, @payload nvarchar(max) = null, @correlation_id nvarchar(4000) = null,
  @headers nvarchar(max) = null, @due_at datetime2(3) = null, @expires_at datetime2(3) = null,
  @partition_key nvarchar(4000) = null, @natural_key nvarchar(4000) = null
as
set nocount, xact_abort on;
set @id = coalesce(@id, newid());
set @message_id = coalesce(@message_id, @id);
if datalength(@correlation_id) = 0 set @correlation_id = null;
declare @refusal nvarchar(200) = case
  when @topic is null or right(@topic, 1) = N' ' collate Latin1_General_100_BIN2 or len(@topic) > 255 then N'topic must have 1 to 255 characters, and no space at its end.'
  when right(@type, 1) = N' ' collate Latin1_General_100_BIN2 or len(@type) > 255 then N'type must have 1 to 255 characters, and no space at its end.'
  when right(@partition_key, 1) = N' ' collate Latin1_General_100_BIN2 or len(@partition_key) > 255 then N'partition_key must have 1 to 255 characters, and no space at its end.'
  when right(@natural_key, 1) = N' ' collate Latin1_General_100_BIN2 or len(@natural_key) > 255 then N'natural_key must have 1 to 255 characters, and no space at its end.'
  when right(@correlation_id, 1) = N' ' collate Latin1_General_100_BIN2 or len(@correlation_id) > 255 then N'correlation_id must have 1 to 255 characters, and no space at its end.'
  when @payload is null then N'payload must be given; it may be empty.'
  when @due_at not between '1970-01-01' and '9998-01-01' then N'due_at must be a time between the years 1970 and 9998.'
  when @expires_at not between '1970-01-01' and '9998-01-01' then N'expires_at must be a time between the years 1970 and 9998.'
end;
-- not every server that speaks T-SQL can read an escaped NUL
if charindex(N'\u0000', @headers) = 0
begin
  if isjson(@headers) = 0 set @refusal = N'headers must be a JSON object whose values are strings.';
  else if not exists (select 1 from openjson(concat(N'[', @headers, N']')) h where h.type = 5)
    or exists (select 1 from openjson(@headers) h where h.type <> 1)
    set @refusal = N'headers must be a JSON object whose values are strings.';
end
if @refusal is not null
begin
  -- the caller's transaction stays as it is
  set xact_abort off;
  throw 51022, @refusal, 1;
end

exec [$(Schema)].[$(Queue)_EnqueueMessages]
  @id = @id output, @message_id = @message_id, @topic = @topic, @type = @type, @payload = @payload,
  @correlation_id = @correlation_id, @headers = @headers, @due_at = @due_at, @expires_at = @expires_at,
  @partition_key = @partition_key, @natural_key = @natural_key;
go

create or alter procedure [$(Schema)].[$(Queue)_LockKeys]
  @items nvarchar(max)
as
set nocount, xact_abort on;
declare @messages table (partition_key nvarchar(255) collate Latin1_General_100_BIN2 null);

insert into @messages (partition_key)
select i.partition_key
from openjson(@items) with (partition_key nvarchar(255)) i
where i.partition_key is not null;

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
go

create or alter procedure [$(Schema)].[$(Queue)_ExpireDead]
  @owner uniqueidentifier, @lease_ms float, @limit int
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @lease_end datetime2(3) = (select a.later from [$(Schema)].[$(Queue)_After](@now, @lease_ms) a);
declare @changed table (seq bigint not null primary key);

update [$(Schema)].[$(Queue)State]
set owner = @owner, locked_until = @lease_end,
  last_error = case when charindex(N'It was not handled before its expiresAt.' collate Latin1_General_100_BIN2, coalesce([$(Queue)State].last_error, N'') collate Latin1_General_100_BIN2) = 0 then N'It was not handled before its expiresAt.' + coalesce(N' Before that: ' + [$(Queue)State].last_error, N'') else [$(Queue)State].last_error end
output inserted.seq into @changed (seq)
from (
  select top (@limit) r.seq
  from [$(Schema)].[$(Queue)State] r with (index([$(Queue)_Dead]), updlock, readpast, rowlock, readcommittedlock)
  where r.status = 4 and r.expires_at <= @now and ((r.locked_until is null and charindex(N'It was not handled before its expiresAt.' collate Latin1_General_100_BIN2, coalesce(r.last_error, N'') collate Latin1_General_100_BIN2) = 0) or r.locked_until <= @now)
  order by r.seq
) p, [$(Schema)].[$(Queue)State] with (forceseek, updlock, readpast, rowlock, readcommittedlock)
-- by each row: the condition alone could be sought, too
where [$(Queue)State].seq = p.seq and [$(Queue)State].status = 4 and [$(Queue)State].expires_at <= @now and (([$(Queue)State].locked_until is null and charindex(N'It was not handled before its expiresAt.' collate Latin1_General_100_BIN2, coalesce([$(Queue)State].last_error, N'') collate Latin1_General_100_BIN2) = 0) or [$(Queue)State].locked_until <= @now) option (loop join, force order);

select c.seq, k.*
from @changed c
cross apply [$(Schema)].[$(Queue)_KeyOf](c.seq) k;
go

create or alter procedure [$(Schema)].[$(Queue)_ListDone]
  @after_seq bigint, @limit int
as
set nocount, xact_abort on;
select top (@limit) d.seq, m.id, m.topic, d.processed_at
from [$(Schema)].[$(Queue)Done] d with (readpast, rowlock, readcommittedlock)
inner join [$(Schema)].[$(Queue)Messages] m with (forceseek) on m.seq = d.seq
where d.seq > @after_seq
-- by each row: the number that the done rows begin behind could be sought in the messages, too
order by d.seq option (loop join, force order);
go

create or alter procedure [$(Schema)].[$(Queue)_Resend]
  @items nvarchar(max), @ttl_ms float
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @sent table (seq bigint not null primary key, keyed bit null, last_error nvarchar(max) null);

begin transaction;
insert into @sent (seq, keyed, last_error)
select m.seq, case when m.partition_key is not null then 1 end, d.last_error
from openjson(@items) with (seq bigint '$') i
inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, updlock, rowlock, readcommittedlock) on m.seq = i.seq
-- the message is locked before its done row
inner join [$(Schema)].[$(Queue)Done] d with (forceseek, updlock, rowlock, readcommittedlock) on d.seq = m.seq option (loop join, force order);

insert into [$(Schema)].[$(Queue)State] (seq, status, visible_at, expires_at, last_error, keyed)
select c.seq, case when c.keyed = 1 then 5 else 1 end, @now, (select a.later from [$(Schema)].[$(Queue)_After](@now, @ttl_ms) a), c.last_error, c.keyed
from @sent c;

delete from [$(Schema)].[$(Queue)Done]
from @sent g, [$(Schema)].[$(Queue)Done] with (forceseek, updlock, rowlock, readcommittedlock)
where [$(Queue)Done].seq = g.seq;

if exists (select 1 from @sent c where c.keyed = 1)
  insert into [$(Schema)].[$(Queue)PartitionChanges] (seq, partition_key, change)
  select c.seq, m.partition_key, 0 from @sent c
  inner join [$(Schema)].[$(Queue)Messages] m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where c.keyed = 1 and m.partition_key is not null order by c.seq;
commit transaction;

select c.seq from @sent c;
go

create or alter procedure [$(Schema)].[$(Queue)_MakeDue]
  @error nvarchar(max), @limit int
as
set nocount, xact_abort on;
declare @now datetime2(3) = sysutcdatetime();
declare @changed table (seq bigint not null primary key);

update [$(Schema)].[$(Queue)State]
set visible_at = @now
output inserted.seq into @changed (seq)
from (
  select top (@limit) r.seq
  from [$(Schema)].[$(Queue)State] r with (forceseek, updlock, readpast, rowlock, readcommittedlock)
  where r.status = 1 and r.visible_at > @now and r.locked_until is null and r.last_error collate Latin1_General_100_BIN2 = @error collate Latin1_General_100_BIN2
  order by r.visible_at, r.seq
) p, [$(Schema)].[$(Queue)State] with (forceseek, updlock, readpast, rowlock, readcommittedlock)
-- by each row: the condition alone could be sought, too
where [$(Queue)State].seq = p.seq and [$(Queue)State].status = 1 and [$(Queue)State].visible_at > @now and [$(Queue)State].locked_until is null and [$(Queue)State].last_error collate Latin1_General_100_BIN2 = @error collate Latin1_General_100_BIN2 option (loop join, force order);

select c.seq from @changed c;
go
