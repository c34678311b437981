-- The database roles of oncebox, and one user in one of them. A role has EXECUTE on the procedures that it needs: they read
-- and write the tables on its behalf. Only operators may read tables, and nobody may write to one.
--   oncebox_receivers  stores webhooks, and parts of them that are no events as dead; reads and marks no message
--   oncebox_functions  does all that functions do; the role of a deployment with one user
--   oncebox_service    the inbox as a service: leases and marks keys
--   oncebox_producers  services in other languages: enqueue and receive, and read nothing
--   oncebox_messaging  a service that exchanges messages with others: only its own procedures, messages_…
--   oncebox_operators  replays, discards and archives dead messages, pauses topics and limits them
-- The deployment to Azure runs this script itself. By hand, run it as the database's administrator after every
-- `oncebox migrate`, once for each user. It may be run again: it then grants what is new.
--   sqlcmd -S "$SQL_SERVER" -d "$SQL_DATABASE" --authentication-method ActiveDirectoryDefault -i infra/sql/users-sqlserver.sql \
--     -v FunctionsUser="id-orders-prod-work" -v ClientId="00000000-0000-0000-0000-000000000000" -v Role=oncebox_functions
-- On Azure SQL Database and on Fabric the user is a managed identity. With its client id the server does not look it up in
-- the directory, which it may not where its administrator is an application; ClientId=none makes it look the name up. On a
-- Managed Instance it is one too, unless there is a login of that name. Elsewhere such a login must exist, and ClientId is
-- not used.
-- Handlers that write to tables of your own in the same transaction need grants on those tables, too.

if not exists (select 1 from sys.database_principals where name = N'oncebox_receivers')
  exec(N'create role [oncebox_receivers]');
if not exists (select 1 from sys.database_principals where name = N'oncebox_functions')
  exec(N'create role [oncebox_functions]');
if not exists (select 1 from sys.database_principals where name = N'oncebox_service')
  exec(N'create role [oncebox_service]');
if not exists (select 1 from sys.database_principals where name = N'oncebox_producers')
  exec(N'create role [oncebox_producers]');
if not exists (select 1 from sys.database_principals where name = N'oncebox_messaging')
  exec(N'create role [oncebox_messaging]');
if not exists (select 1 from sys.database_principals where name = N'oncebox_operators')
  exec(N'create role [oncebox_operators]');

grant execute on [infra].[Inbox_ReceiveMessages] to [oncebox_receivers];

grant execute on [infra].[Inbox_Claim] to [oncebox_functions];
grant execute on [infra].[Inbox_Ack] to [oncebox_functions];
grant execute on [infra].[Inbox_Abandon] to [oncebox_functions];
grant execute on [infra].[Inbox_Fail] to [oncebox_functions];
grant execute on [infra].[Inbox_Release] to [oncebox_functions];
grant execute on [infra].[Inbox_Renew] to [oncebox_functions];
grant execute on [infra].[Inbox_Reap] to [oncebox_functions];
grant execute on [infra].[Inbox_Purge] to [oncebox_functions];
grant execute on [infra].[Inbox_PurgeOperations] to [oncebox_functions];
grant execute on [infra].[Inbox_Resolve] to [oncebox_functions];
grant execute on [infra].[Inbox_Get] to [oncebox_functions];
grant execute on [infra].[Inbox_Attempts] to [oncebox_functions];
grant execute on [infra].[Inbox_List] to [oncebox_functions];
grant execute on [infra].[Inbox_Stats] to [oncebox_functions];
grant execute on [infra].[Inbox_OldestDue] to [oncebox_functions];
grant execute on [infra].[Inbox_Controls] to [oncebox_functions];
grant execute on [infra].[Inbox_RecordUnhandled] to [oncebox_functions];
grant execute on [infra].[Inbox_Unhandled] to [oncebox_functions];
grant execute on [infra].[Inbox_Due] to [oncebox_functions];
grant execute on [infra].[Inbox_Replay] to [oncebox_functions];
grant execute on [infra].[Inbox_ReceiveMessages] to [oncebox_functions];
grant execute on [infra].[Inbox_AlreadyProcessed] to [oncebox_functions];
grant execute on [infra].[Inbox_Mark] to [oncebox_functions];
grant execute on [infra].[Inbox_TryBegin] to [oncebox_functions];
grant execute on [infra].[Inbox_ChangeKey] to [oncebox_functions];
grant execute on [infra].[Inbox_MarkKey] to [oncebox_functions];
grant execute on [infra].[Inbox_InspectKey] to [oncebox_functions];
grant execute on [infra].[Inbox_PurgeKeys] to [oncebox_functions];

grant execute on [infra].[Outbox_Claim] to [oncebox_functions];
grant execute on [infra].[Outbox_Ack] to [oncebox_functions];
grant execute on [infra].[Outbox_Abandon] to [oncebox_functions];
grant execute on [infra].[Outbox_Fail] to [oncebox_functions];
grant execute on [infra].[Outbox_Release] to [oncebox_functions];
grant execute on [infra].[Outbox_Renew] to [oncebox_functions];
grant execute on [infra].[Outbox_Reap] to [oncebox_functions];
grant execute on [infra].[Outbox_Purge] to [oncebox_functions];
grant execute on [infra].[Outbox_PurgeOperations] to [oncebox_functions];
grant execute on [infra].[Outbox_Resolve] to [oncebox_functions];
grant execute on [infra].[Outbox_Get] to [oncebox_functions];
grant execute on [infra].[Outbox_Attempts] to [oncebox_functions];
grant execute on [infra].[Outbox_List] to [oncebox_functions];
grant execute on [infra].[Outbox_Stats] to [oncebox_functions];
grant execute on [infra].[Outbox_OldestDue] to [oncebox_functions];
grant execute on [infra].[Outbox_Controls] to [oncebox_functions];
grant execute on [infra].[Outbox_RecordUnhandled] to [oncebox_functions];
grant execute on [infra].[Outbox_Unhandled] to [oncebox_functions];
grant execute on [infra].[Outbox_Due] to [oncebox_functions];
grant execute on [infra].[Outbox_Replay] to [oncebox_functions];
grant execute on [infra].[Outbox_EnqueueMessages] to [oncebox_functions];
grant execute on [infra].[Outbox_LockKeys] to [oncebox_functions];
grant execute on [infra].[Outbox_ExpireDead] to [oncebox_functions];
grant execute on [infra].[Outbox_ListDone] to [oncebox_functions];
grant execute on [infra].[Outbox_MakeDue] to [oncebox_functions];
grant execute on [infra].[Outbox_Resend] to [oncebox_functions];

grant execute on [infra].[Inbox_TryBegin] to [oncebox_service];
grant execute on [infra].[Inbox_ChangeKey] to [oncebox_service];
grant execute on [infra].[Inbox_MarkKey] to [oncebox_service];
grant execute on [infra].[Inbox_InspectKey] to [oncebox_service];

grant execute on [infra].[Outbox_Enqueue] to [oncebox_producers];
grant execute on [infra].[Inbox_Receive] to [oncebox_producers];

-- Messages between services: the procedures of a service, where `oncebox migrate --messages` has made them. The role may execute no
-- other. The functions may send through the service, and are its user in a deployment with one user.
if object_id(N'[infra].[messages_outbox_Claim]') is not null
begin
  grant execute on [infra].[messages_inbox_Claim] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_Claim] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_Ack] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_Ack] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_Abandon] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_Abandon] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_Fail] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_Fail] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_Release] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_Release] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_Renew] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_Renew] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_Reap] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_Reap] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_Purge] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_Purge] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_PurgeOperations] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_PurgeOperations] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_Resolve] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_Resolve] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_Get] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_Get] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_Attempts] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_Attempts] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_List] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_List] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_Stats] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_Stats] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_OldestDue] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_OldestDue] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_Controls] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_Controls] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_RecordUnhandled] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_RecordUnhandled] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_Unhandled] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_Unhandled] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_Due] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_Due] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_Replay] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_Replay] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_ReceiveMessages] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_ReceiveMessages] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_AlreadyProcessed] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_AlreadyProcessed] to [oncebox_functions];
  grant execute on [infra].[messages_inbox_Mark] to [oncebox_messaging];
  grant execute on [infra].[messages_inbox_Mark] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_Claim] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_Claim] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_Ack] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_Ack] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_Abandon] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_Abandon] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_Fail] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_Fail] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_Release] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_Release] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_Renew] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_Renew] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_Reap] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_Reap] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_Purge] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_Purge] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_PurgeOperations] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_PurgeOperations] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_Resolve] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_Resolve] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_Get] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_Get] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_Attempts] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_Attempts] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_List] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_List] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_Stats] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_Stats] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_OldestDue] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_OldestDue] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_Controls] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_Controls] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_RecordUnhandled] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_RecordUnhandled] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_Unhandled] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_Unhandled] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_Due] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_Due] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_Replay] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_Replay] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_EnqueueMessages] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_EnqueueMessages] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_LockKeys] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_LockKeys] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_ExpireDead] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_ExpireDead] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_ListDone] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_ListDone] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_MakeDue] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_MakeDue] to [oncebox_functions];
  grant execute on [infra].[messages_outbox_Resend] to [oncebox_messaging];
  grant execute on [infra].[messages_outbox_Resend] to [oncebox_functions];
end;

-- Operators are people and jobs. The functions' role has no right to what only they do. Add people to it:
--   alter role oncebox_operators add member [alice];
grant execute on [infra].[Inbox_Get] to [oncebox_operators];
grant execute on [infra].[Inbox_Attempts] to [oncebox_operators];
grant execute on [infra].[Inbox_List] to [oncebox_operators];
grant execute on [infra].[Inbox_Stats] to [oncebox_operators];
grant execute on [infra].[Inbox_OldestDue] to [oncebox_operators];
grant execute on [infra].[Inbox_Resolve] to [oncebox_operators];
grant execute on [infra].[Inbox_Replay] to [oncebox_operators];
grant execute on [infra].[Inbox_Discard] to [oncebox_operators];
grant execute on [infra].[Inbox_Archive] to [oncebox_operators];
grant execute on [infra].[Inbox_AddOperation] to [oncebox_operators];
grant execute on [infra].[Inbox_MoveOperation] to [oncebox_operators];
grant execute on [infra].[Inbox_Controls] to [oncebox_operators];
grant execute on [infra].[Inbox_PutControl] to [oncebox_operators];
grant execute on [infra].[Inbox_EndControl] to [oncebox_operators];
grant execute on [infra].[Inbox_Unhandled] to [oncebox_operators];
grant execute on [infra].[Inbox_ReceiveMessages] to [oncebox_operators];

grant execute on [infra].[Outbox_Get] to [oncebox_operators];
grant execute on [infra].[Outbox_Attempts] to [oncebox_operators];
grant execute on [infra].[Outbox_List] to [oncebox_operators];
grant execute on [infra].[Outbox_Stats] to [oncebox_operators];
grant execute on [infra].[Outbox_OldestDue] to [oncebox_operators];
grant execute on [infra].[Outbox_Resolve] to [oncebox_operators];
grant execute on [infra].[Outbox_Replay] to [oncebox_operators];
grant execute on [infra].[Outbox_Discard] to [oncebox_operators];
grant execute on [infra].[Outbox_Archive] to [oncebox_operators];
grant execute on [infra].[Outbox_AddOperation] to [oncebox_operators];
grant execute on [infra].[Outbox_MoveOperation] to [oncebox_operators];
grant execute on [infra].[Outbox_Controls] to [oncebox_operators];
grant execute on [infra].[Outbox_PutControl] to [oncebox_operators];
grant execute on [infra].[Outbox_EndControl] to [oncebox_operators];
grant execute on [infra].[Outbox_Unhandled] to [oncebox_operators];
grant execute on [infra].[Outbox_EnqueueMessages] to [oncebox_operators];

-- What operators look at besides: groups of dead messages, activity, partitions, what they have done.
grant select on [infra].[Inbox] to [oncebox_operators];
grant select on [infra].[InboxMessages] to [oncebox_operators];
grant select on [infra].[InboxState] to [oncebox_operators];
grant select on [infra].[InboxDone] to [oncebox_operators];
grant select on [infra].[InboxControls] to [oncebox_operators];
grant select on [infra].[InboxAttempts] to [oncebox_operators];
grant select on [infra].[InboxPartitionQueue] to [oncebox_operators];
grant select on [infra].[InboxPartitionChanges] to [oncebox_operators];
grant select on [infra].[Inbox_After] to [oncebox_operators];
grant select on [infra].[Inbox_KeyOf] to [oncebox_operators];
grant select on [infra].[Outbox] to [oncebox_operators];
grant select on [infra].[OutboxMessages] to [oncebox_operators];
grant select on [infra].[OutboxState] to [oncebox_operators];
grant select on [infra].[OutboxDone] to [oncebox_operators];
grant select on [infra].[OutboxControls] to [oncebox_operators];
grant select on [infra].[OutboxAttempts] to [oncebox_operators];
grant select on [infra].[OutboxPartitionQueue] to [oncebox_operators];
grant select on [infra].[OutboxPartitionChanges] to [oncebox_operators];
grant select on [infra].[Outbox_After] to [oncebox_operators];
grant select on [infra].[Outbox_KeyOf] to [oncebox_operators];
grant select on [infra].[oncebox_operations] to [oncebox_operators];

if not exists (select 1 from sys.database_principals where name = N'$(FunctionsUser)')
begin
  declare @edition int = cast(serverproperty('EngineEdition') as int);
  declare @client uniqueidentifier = try_cast(N'$(ClientId)' as uniqueidentifier);
  declare @create nvarchar(400) = N'create user [$(FunctionsUser)] ';
  -- 5 is Azure SQL Database, 12 a database in Fabric, 8 a Managed Instance. E is a user or an application of Entra.
  if @edition in (5, 12) and @client is not null
    set @create += N'with sid = ' + convert(nvarchar(40), cast(@client as varbinary(16)), 1) + N', type = E';
  else if @edition in (5, 12) or (@edition = 8 and suser_id(N'$(FunctionsUser)') is null)
    set @create += N'from external provider';
  else
    set @create += N'for login [$(FunctionsUser)]';
  exec(@create);
end;

alter role [$(Role)] add member [$(FunctionsUser)];
