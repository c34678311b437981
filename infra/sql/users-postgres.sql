-- The roles of oncebox. They read and write the queues' tables, own nothing and change no schema.
--   oncebox_receivers  stores webhooks, and parts of them that are no events as dead
--   oncebox_functions  does all that functions do; the user of a deployment with one user
--   oncebox_service    the inbox as a service: leases and marks keys, and reads no message
--   oncebox_producers  services in other languages: enqueue and receive by two functions, and read nothing
--   oncebox_messaging  a service that exchanges messages with others: only its own tables, messages_…
--   oncebox_operators  replays, discards and archives dead messages, pauses topics and limits them
-- The deployments to Azure and AWS run this script themselves. By hand, run it as the tables' owner after every
-- `oncebox migrate`. It may be run again: it then grants what is new.
--   psql "$ADMIN_URL" -f infra/sql/users-postgres.sql
--   psql "$ADMIN_URL" -c '\password oncebox_functions'
-- On Azure a managed identity is a user, and a member of one of the roles. By hand, as an Entra administrator in the database
-- postgres, with the identity's object id:
--   select * from pgaadauth_create_principal_with_oid('id-orders-prod-work', '00000000-0000-0000-0000-000000000000', 'service', false, false);
--   grant oncebox_functions to "id-orders-prod-work";
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
grant select, insert, update, delete on "infra"."inbox_messages", "infra"."outbox_messages" to oncebox_functions;
-- The state of unfinished messages: due time, lease, attempts.
grant select, insert, update, delete on "infra"."inbox_state", "infra"."outbox_state" to oncebox_functions;
-- Done messages are never changed.
grant select, insert, delete on "infra"."inbox_done", "infra"."outbox_done" to oncebox_functions;
-- The failed attempts of messages.
grant select, insert, delete on "infra"."inbox_attempts", "infra"."outbox_attempts" to oncebox_functions;
-- Pauses and limits: claims keep to them and count the tokens of limits. Operators add and end them.
grant select, update on "infra"."inbox_controls", "infra"."outbox_controls" to oncebox_functions;
-- Topics whose messages were acknowledged without a handler.
grant select, insert, update, delete on "infra"."inbox_unhandled", "infra"."outbox_unhandled" to oncebox_functions;
-- The keys of the inbox as a service.
grant select, insert, update, delete on "infra"."inbox_keys" to oncebox_functions;
-- The records of operations: the clean-up deletes them after their retention. Only operators write them.
grant select (id, queue, ended_at), delete on "infra"."oncebox_operations" to oncebox_functions;
-- Messages with a partition key: their order, its locks, and what a transaction has enqueued until it commits.
grant select, insert, delete on "infra"."inbox_partition_queue", "infra"."outbox_partition_queue" to oncebox_functions;
grant select, insert, update, delete on "infra"."inbox_partition_lock", "infra"."outbox_partition_lock" to oncebox_functions;
grant select, insert, delete on "infra"."inbox_pending_arrivals", "infra"."outbox_pending_arrivals" to oncebox_functions;

-- Webhooks. An upsert compares a delivery with what is stored, so the role can read the inbox; it cannot delete from it, and
-- the outbox is closed to it.
do $$
begin
  if not exists (select from pg_roles where rolname = 'oncebox_receivers') then
    create role oncebox_receivers nologin nosuperuser nocreatedb nocreaterole;
  end if;
end
$$;

grant usage on schema "infra" to oncebox_receivers;
grant select, insert, update on "infra"."inbox_messages", "infra"."inbox_state" to oncebox_receivers;
grant select on "infra"."inbox_done" to oncebox_receivers;
grant select, insert on "infra"."inbox_partition_queue" to oncebox_receivers;
grant select, insert, update on "infra"."inbox_partition_lock" to oncebox_receivers;
grant select, insert, delete on "infra"."inbox_pending_arrivals" to oncebox_receivers;

-- The inbox as a service. It sees its keys and no message; the functions' clean-up deletes old keys.
do $$
begin
  if not exists (select from pg_roles where rolname = 'oncebox_service') then
    create role oncebox_service nologin nosuperuser nocreatedb nocreaterole;
  end if;
end
$$;

grant usage on schema "infra" to oncebox_service;
grant select, insert, update on "infra"."inbox_keys" to oncebox_service;

-- Services in other languages. They have no right to any table: the two functions run with the rights of their owner. Grant the
-- role to their users, and revoke one of the functions where they need only the other:
--   grant oncebox_producers to billing;
do $$
begin
  if not exists (select from pg_roles where rolname = 'oncebox_producers') then
    create role oncebox_producers nologin nosuperuser nocreatedb nocreaterole;
  end if;
end
$$;

grant usage on schema "infra" to oncebox_producers;
grant execute on function "infra"."outbox_enqueue"(text, text, text, text, text, text, text, timestamptz, timestamptz, uuid, uuid) to oncebox_producers;
grant execute on function "infra"."inbox_receive"(text, text, text, text, text, text, text, text, text, timestamptz, timestamptz) to oncebox_producers;

-- Messages between services: the tables of a service, where `oncebox migrate --messages` has made them. The role sees no queue
-- of the app. The functions may send through the service, and are its user in a deployment with one user.
do $$
begin
  if not exists (select from pg_roles where rolname = 'oncebox_messaging') then
    create role oncebox_messaging nologin nosuperuser nocreatedb nocreaterole;
  end if;
  if to_regclass('"infra"."messages_outbox"') is not null then
    grant usage on schema "infra" to oncebox_messaging;
    grant select, insert, update, delete on "infra"."messages_inbox_messages", "infra"."messages_outbox_messages" to oncebox_messaging, oncebox_functions;
    grant select, insert, update, delete on "infra"."messages_inbox_state", "infra"."messages_outbox_state" to oncebox_messaging, oncebox_functions;
    grant select, insert, delete on "infra"."messages_inbox_done", "infra"."messages_outbox_done" to oncebox_messaging, oncebox_functions;
    grant select, insert, delete on "infra"."messages_inbox_attempts", "infra"."messages_outbox_attempts" to oncebox_messaging, oncebox_functions;
    grant select, update on "infra"."messages_inbox_controls", "infra"."messages_outbox_controls" to oncebox_messaging, oncebox_functions;
    grant select, insert, update, delete on "infra"."messages_inbox_unhandled", "infra"."messages_outbox_unhandled" to oncebox_messaging, oncebox_functions;
    grant select, insert, delete on "infra"."messages_inbox_partition_queue", "infra"."messages_outbox_partition_queue" to oncebox_messaging, oncebox_functions;
    grant select, insert, update, delete on "infra"."messages_inbox_partition_lock", "infra"."messages_outbox_partition_lock" to oncebox_messaging, oncebox_functions;
    grant select, insert, delete on "infra"."messages_inbox_pending_arrivals", "infra"."messages_outbox_pending_arrivals" to oncebox_messaging, oncebox_functions;
    grant select (id, queue, ended_at), delete on "infra"."oncebox_operations" to oncebox_messaging;
  end if;
end
$$;

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
grant select, insert, update, delete on "infra"."inbox_messages", "infra"."outbox_messages" to oncebox_operators;
-- The views of both, to read by hand.
grant select on "infra"."inbox", "infra"."outbox" to oncebox_operators;
grant select, insert, update, delete on "infra"."inbox_state", "infra"."outbox_state" to oncebox_operators;
grant select, insert on "infra"."inbox_done", "infra"."outbox_done" to oncebox_operators;
grant select, delete on "infra"."inbox_attempts", "infra"."outbox_attempts" to oncebox_operators;
-- Archived messages. Whoever deletes them after their time needs the right to do so.
grant select, insert on "infra"."inbox_archive", "infra"."outbox_archive" to oncebox_operators;
grant select, insert, update, delete on "infra"."inbox_controls", "infra"."outbox_controls" to oncebox_operators;
grant select on "infra"."inbox_unhandled", "infra"."outbox_unhandled" to oncebox_operators;
grant select, insert, delete on "infra"."inbox_partition_queue", "infra"."outbox_partition_queue" to oncebox_operators;
grant select, insert, update, delete on "infra"."inbox_partition_lock", "infra"."outbox_partition_lock" to oncebox_operators;
grant select, insert, delete on "infra"."inbox_pending_arrivals", "infra"."outbox_pending_arrivals" to oncebox_operators;
