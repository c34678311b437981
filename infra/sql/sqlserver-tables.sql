-- The tables and indexes that both queues have, and the end of the transaction that sqlserver.sql begins. Made by npm run render:sql; do not edit.
  create table [$(Schema)].[$(Queue)State] (
    seq bigint not null,
    visible_at datetime2(3) not null,
    -- of a leased row: the end of the lease and the back-off after it; nobody else may claim it until then
    reclaimable_at datetime2(3) null,
    locked_until datetime2(3) null,
    expires_at datetime2(3) null,
    owner uniqueidentifier null,
    attempt int not null constraint [$(Queue)State_Attempt] default 0,
    status tinyint not null,
    crashes int not null constraint [$(Queue)State_Crashes] default 0,
    -- 1 for a message with a partition key, else null
    keyed bit null,
    last_attempt_at datetime2(3) null,
    -- of a dead message
    died_at datetime2(3) null,
    -- the same for errors that differ in ids and numbers only
    error_group varchar(16) collate Latin1_General_100_BIN2 null,
    last_error nvarchar(max) null,
    -- of a message that was claimed after a crash: since when it was claimable
    due_since datetime2(3) null,
    constraint [$(Queue)State_PK] primary key clustered (seq)
  );
  create index [$(Queue)_Ready] on [$(Schema)].[$(Queue)State] (visible_at, seq) where status = 1;
  create index [$(Queue)_DeadKeyed] on [$(Schema)].[$(Queue)State] (seq) where status = 4 and keyed = 1;
  create index [$(Queue)_Dead] on [$(Schema)].[$(Queue)State] (seq) include (expires_at, locked_until, error_group, died_at, keyed) where status = 4;
  create table [$(Schema)].[$(Queue)Done] (
    seq bigint not null,
    processed_at datetime2(3) not null,
    attempt int not null,
    processed_by nvarchar(100) null,
    -- of a message of an inbox that an operator has ended: archived or replaced
    resolution varchar(10) collate Latin1_General_100_BIN2 null,
    last_error nvarchar(max) null,
    constraint [$(Queue)Done_PK] primary key clustered (seq)
  );
  create index [$(Queue)Done_Resolution] on [$(Schema)].[$(Queue)Done] (seq) include (resolution) where resolution is not null;
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
  create index [$(Queue)_Correlation] on [$(Schema)].[$(Queue)Messages] (correlation_id, seq) where correlation_id is not null;
  create table [$(Schema)].[$(Queue)Controls] (
    scope nvarchar(10) collate Latin1_General_100_BIN2 not null,
    -- the topic or source; empty for the whole queue
    name nvarchar(255) collate Latin1_General_100_BIN2 not null,
    paused bit not null,
    per_second float null,
    -- how many messages the limit lets pass, as of refilled_at
    tokens float not null constraint [$(Queue)Controls_Tokens] default 1,
    refilled_at datetime2(3) not null,
    who nvarchar(255) not null,
    changed_at datetime2(3) not null,
    constraint [$(Queue)Controls_PK] primary key clustered (scope, name)
  );
  create table [$(Schema)].[$(Queue)Unhandled] (
    topic nvarchar(255) collate Latin1_General_100_BIN2 not null,
    messages bigint not null,
    last_seen_at datetime2(3) not null,
    constraint [$(Queue)Unhandled_PK] primary key clustered (topic)
  );
  alter table [$(Schema)].[$(Queue)Messages] set (lock_escalation = disable);
  alter table [$(Schema)].[$(Queue)State] set (lock_escalation = disable);
  alter table [$(Schema)].[$(Queue)Done] set (lock_escalation = disable);
  alter table [$(Schema)].[$(Queue)PartitionQueue] set (lock_escalation = disable);
  alter table [$(Schema)].[$(Queue)PartitionChanges] set (lock_escalation = disable);
  alter table [$(Schema)].[$(Queue)Attempts] set (lock_escalation = disable);
  alter table [$(Schema)].[$(Queue)Archive] set (lock_escalation = disable);
  alter table [$(Schema)].[$(Queue)Controls] set (lock_escalation = disable);
  alter table [$(Schema)].[$(Queue)Unhandled] set (lock_escalation = disable);
  exec sp_tableoption N'[$(Schema)].[$(Queue)State]', 'large value types out of row', 1;
  exec sp_tableoption N'[$(Schema)].[$(Queue)Done]', 'large value types out of row', 1;
  insert into [$(Schema)].[oncebox_migrations] (queue, number, name) values (N'$(Kind):$(Queue)', 1, N'$(Kind)');

  commit transaction;
