-- The user that the functions sign in with. It has EXECUTE on the queues' procedures and nothing else: the procedures
-- read and write the tables on its behalf.
-- Run this script as the database's administrator after every `oncebox migrate`. It may be run again: it then grants what
-- is new.
--   sqlcmd -G -S "$SQL_SERVER" -d "$SQL_DATABASE" -v FunctionsUser="$FUNCTIONS_IDENTITY" -i infra/sql/users-sqlserver.sql
-- On Azure SQL Database and on Fabric the user is the functions' managed identity; on a Managed Instance too, unless it has a
-- login of that name. Elsewhere such a login must exist.
-- Handlers that write to tables of your own in the same transaction need grants on those tables, too.

if not exists (select 1 from sys.database_principals where name = N'$(FunctionsUser)')
begin
  declare @edition int = cast(serverproperty('EngineEdition') as int);
  -- 5 is Azure SQL Database, 12 a database in Fabric, 8 a Managed Instance
  if @edition in (5, 12) or (@edition = 8 and suser_id(N'$(FunctionsUser)') is null)
    exec(N'create user [$(FunctionsUser)] from external provider');
  else
    exec(N'create user [$(FunctionsUser)] for login [$(FunctionsUser)]');
end;

grant execute on [infra].[Inbox_Claim] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_ApplyControls] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_Ack] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_Abandon] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_Fail] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_Release] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_Renew] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_Reap] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_Purge] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_PurgeOperations] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_Resolve] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_Get] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_Attempts] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_DeadGroups] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_CountDead] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_List] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_Stats] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_OldestDue] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_Backlog] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_EnqueuedBefore] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_DoneBefore] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_DiedBefore] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_BlockedPartitions] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_ByCorrelation] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_Controls] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_Due] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_Replay] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_Receive] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_AlreadyProcessed] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_Mark] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_TryBegin] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_RenewKey] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_FinishKey] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_ReleaseKey] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_InspectKey] to [$(FunctionsUser)];
grant execute on [infra].[Inbox_PurgeKeys] to [$(FunctionsUser)];

grant execute on [infra].[Outbox_Claim] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_ApplyControls] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_Ack] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_Abandon] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_Fail] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_Release] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_Renew] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_Reap] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_Purge] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_PurgeOperations] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_Resolve] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_Get] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_Attempts] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_DeadGroups] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_CountDead] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_List] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_Stats] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_OldestDue] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_Backlog] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_EnqueuedBefore] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_DoneBefore] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_DiedBefore] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_BlockedPartitions] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_ByCorrelation] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_Controls] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_Due] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_Replay] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_Enqueue] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_ExpireDead] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_ListDone] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_Resend] to [$(FunctionsUser)];
grant execute on [infra].[Outbox_MakeDue] to [$(FunctionsUser)];

-- Operators: people and jobs that replay, discard and archive dead messages, pause topics and limit them. Add them to the role:
--   alter role oncebox_operators add member [alice];
-- The functions' user has no right to any of this.
if not exists (select 1 from sys.database_principals where name = N'oncebox_operators')
  exec(N'create role [oncebox_operators]');

grant execute on [infra].[Inbox_Get] to [oncebox_operators];
grant execute on [infra].[Inbox_Attempts] to [oncebox_operators];
grant execute on [infra].[Inbox_DeadGroups] to [oncebox_operators];
grant execute on [infra].[Inbox_CountDead] to [oncebox_operators];
grant execute on [infra].[Inbox_List] to [oncebox_operators];
grant execute on [infra].[Inbox_Stats] to [oncebox_operators];
grant execute on [infra].[Inbox_OldestDue] to [oncebox_operators];
grant execute on [infra].[Inbox_Backlog] to [oncebox_operators];
grant execute on [infra].[Inbox_EnqueuedBefore] to [oncebox_operators];
grant execute on [infra].[Inbox_DoneBefore] to [oncebox_operators];
grant execute on [infra].[Inbox_DiedBefore] to [oncebox_operators];
grant execute on [infra].[Inbox_BlockedPartitions] to [oncebox_operators];
grant execute on [infra].[Inbox_ByCorrelation] to [oncebox_operators];
grant execute on [infra].[Inbox_Resolve] to [oncebox_operators];
grant execute on [infra].[Inbox_Replay] to [oncebox_operators];
grant execute on [infra].[Inbox_NextDead] to [oncebox_operators];
grant execute on [infra].[Inbox_Discard] to [oncebox_operators];
grant execute on [infra].[Inbox_Archive] to [oncebox_operators];
grant execute on [infra].[Inbox_AddOperation] to [oncebox_operators];
grant execute on [infra].[Inbox_LockOperation] to [oncebox_operators];
grant execute on [infra].[Inbox_MoveOperation] to [oncebox_operators];
grant execute on [infra].[Inbox_Operations] to [oncebox_operators];
grant execute on [infra].[Inbox_Controls] to [oncebox_operators];
grant execute on [infra].[Inbox_PutControl] to [oncebox_operators];
grant execute on [infra].[Inbox_EndControl] to [oncebox_operators];
grant execute on [infra].[Inbox_ApplyControls] to [oncebox_operators];
grant execute on [infra].[Inbox_Receive] to [oncebox_operators];

grant execute on [infra].[Outbox_Get] to [oncebox_operators];
grant execute on [infra].[Outbox_Attempts] to [oncebox_operators];
grant execute on [infra].[Outbox_DeadGroups] to [oncebox_operators];
grant execute on [infra].[Outbox_CountDead] to [oncebox_operators];
grant execute on [infra].[Outbox_List] to [oncebox_operators];
grant execute on [infra].[Outbox_Stats] to [oncebox_operators];
grant execute on [infra].[Outbox_OldestDue] to [oncebox_operators];
grant execute on [infra].[Outbox_Backlog] to [oncebox_operators];
grant execute on [infra].[Outbox_EnqueuedBefore] to [oncebox_operators];
grant execute on [infra].[Outbox_DoneBefore] to [oncebox_operators];
grant execute on [infra].[Outbox_DiedBefore] to [oncebox_operators];
grant execute on [infra].[Outbox_BlockedPartitions] to [oncebox_operators];
grant execute on [infra].[Outbox_ByCorrelation] to [oncebox_operators];
grant execute on [infra].[Outbox_Resolve] to [oncebox_operators];
grant execute on [infra].[Outbox_Replay] to [oncebox_operators];
grant execute on [infra].[Outbox_NextDead] to [oncebox_operators];
grant execute on [infra].[Outbox_Discard] to [oncebox_operators];
grant execute on [infra].[Outbox_Archive] to [oncebox_operators];
grant execute on [infra].[Outbox_AddOperation] to [oncebox_operators];
grant execute on [infra].[Outbox_LockOperation] to [oncebox_operators];
grant execute on [infra].[Outbox_MoveOperation] to [oncebox_operators];
grant execute on [infra].[Outbox_Operations] to [oncebox_operators];
grant execute on [infra].[Outbox_Controls] to [oncebox_operators];
grant execute on [infra].[Outbox_PutControl] to [oncebox_operators];
grant execute on [infra].[Outbox_EndControl] to [oncebox_operators];
grant execute on [infra].[Outbox_ApplyControls] to [oncebox_operators];
grant execute on [infra].[Outbox_Enqueue] to [oncebox_operators];
