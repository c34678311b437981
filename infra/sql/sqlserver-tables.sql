-- The tables and indexes that both queues have: the middle of a batch in sqlserver.sql. Made by npm run render:sql; do not edit.
  create index [$(Queue)_Correlation] on [$(Schema)].[$(Queue)] (correlation_id, seq) where correlation_id is not null;
  create table [$(Schema)].[$(Queue)Controls] (
    id bigint identity(1, 1) not null,
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
    constraint [$(Queue)Controls_PK] primary key clustered (id)
  );
  create unique index [$(Queue)Controls_Key] on [$(Schema)].[$(Queue)Controls] (scope, name) include (paused);
  create index [$(Queue)_Parked] on [$(Schema)].[$(Queue)State] (parked_by, visible_at, seq) where status = 7;
  alter table [$(Schema)].[$(Queue)] set (lock_escalation = disable);
  alter table [$(Schema)].[$(Queue)State] set (lock_escalation = disable);
  alter table [$(Schema)].[$(Queue)PartitionQueue] set (lock_escalation = disable);
  alter table [$(Schema)].[$(Queue)PartitionChanges] set (lock_escalation = disable);
  alter table [$(Schema)].[$(Queue)Attempts] set (lock_escalation = disable);
  alter table [$(Schema)].[$(Queue)Archive] set (lock_escalation = disable);
  alter table [$(Schema)].[$(Queue)Controls] set (lock_escalation = disable);
