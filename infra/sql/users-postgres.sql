-- The user that the functions sign in with, and the role of operators. The user reads and writes the queues' tables, owns
-- nothing and changes no schema.
-- Run this script as the tables' owner after every `oncebox migrate`. It may be run again: it then grants what is new.
--   psql "$ADMIN_URL" -f infra/sql/users-postgres.sql
--   psql "$ADMIN_URL" -c '\password oncebox_functions'
-- Handlers that write to tables of your own in the same transaction need grants on those tables, too.

do $$
begin
  if not exists (select from pg_roles where rolname = 'oncebox_functions') then
    create role oncebox_functions login nosuperuser nocreatedb nocreaterole noinherit connection limit 200;
  end if;
end
$$;

grant usage on schema "infra" to oncebox_functions;

-- Messages. Only the clean-up deletes them.
grant select, insert, update, delete on "infra"."inbox", "infra"."outbox" to oncebox_functions;
-- The state of unfinished messages: due time, lease, attempts.
grant select, insert, update, delete on "infra"."inbox_state", "infra"."outbox_state" to oncebox_functions;
-- Done messages are never changed.
grant select, insert, delete on "infra"."inbox_done", "infra"."outbox_done" to oncebox_functions;
-- The failed attempts of messages.
grant select, insert, delete on "infra"."inbox_attempts", "infra"."outbox_attempts" to oncebox_functions;
-- Pauses and limits: claims keep to them, count the tokens of limits, and delete what has ended. Operators add them.
grant select, update, delete on "infra"."inbox_controls", "infra"."outbox_controls" to oncebox_functions;
-- The records of operations: the clean-up deletes them after their retention. Only operators write them.
grant select (id, queue, ended_at), delete on "infra"."oncebox_operations" to oncebox_functions;
-- Messages with a partition key: their order, its locks, and what a transaction has enqueued until it commits.
grant select, insert, delete on "infra"."inbox_partition_queue", "infra"."outbox_partition_queue" to oncebox_functions;
grant select, insert, update, delete on "infra"."inbox_partition_lock", "infra"."outbox_partition_lock" to oncebox_functions;
grant select, insert, delete on "infra"."inbox_pending_arrivals", "infra"."outbox_pending_arrivals" to oncebox_functions;

-- Operators: people and jobs that replay, discard and archive dead messages, pause topics and limit them. Grant the role to their users:
--   grant oncebox_operators to alice;
-- The functions cannot do it: every such operation begins with a record in a table that only operators write.
do $$
begin
  if not exists (select from pg_roles where rolname = 'oncebox_operators') then
    create role oncebox_operators nologin nosuperuser nocreatedb nocreaterole;
  end if;
end
$$;

grant usage on schema "infra" to oncebox_operators;
grant select, insert, update on "infra"."oncebox_operations" to oncebox_operators;
grant select, insert, update, delete on "infra"."inbox", "infra"."outbox" to oncebox_operators;
grant select, insert, update, delete on "infra"."inbox_state", "infra"."outbox_state" to oncebox_operators;
grant select, insert on "infra"."inbox_done", "infra"."outbox_done" to oncebox_operators;
grant select, delete on "infra"."inbox_attempts", "infra"."outbox_attempts" to oncebox_operators;
-- Archived messages. Whoever deletes them after their time needs the right to do so.
grant select, insert on "infra"."inbox_archive", "infra"."outbox_archive" to oncebox_operators;
grant select, insert, update, delete on "infra"."inbox_controls", "infra"."outbox_controls" to oncebox_operators;
grant select, insert, delete on "infra"."inbox_partition_queue", "infra"."outbox_partition_queue" to oncebox_operators;
grant select, insert, update, delete on "infra"."inbox_partition_lock", "infra"."outbox_partition_lock" to oncebox_operators;
grant select, insert, delete on "infra"."inbox_pending_arrivals", "infra"."outbox_pending_arrivals" to oncebox_operators;
