-- The user that the functions sign in with: reads and writes the queues' tables, owns nothing, changes no schema.
-- Run it as the tables' owner after every `oncebox migrate`: it may be run again, and grants what is new.
--   psql "$ADMIN_URL" -f infra/sql/users-postgres.sql
--   psql "$ADMIN_URL" -c '\password oncebox_functions'
-- Handlers that write tables of yours in the same transaction need grants on those, too.

do $$
begin
  if not exists (select from pg_roles where rolname = 'oncebox_functions') then
    create role oncebox_functions login nosuperuser nocreatedb nocreaterole noinherit connection limit 200;
  end if;
end
$$;

grant usage on schema "infra" to oncebox_functions;

-- Messages; only the clean-up deletes them.
grant select, insert, update, delete on "infra"."inbox", "infra"."outbox" to oncebox_functions;
-- What is claimed, by whom, and until when.
grant select, insert, update, delete on "infra"."inbox_state", "infra"."outbox_state" to oncebox_functions;
-- What is done is never changed.
grant select, insert, delete on "infra"."inbox_done", "infra"."outbox_done" to oncebox_functions;
-- Messages with a partition key, in line.
grant select, insert, update, delete on "infra"."inbox_lane", "infra"."outbox_lane" to oncebox_functions;
grant select, insert, delete on "infra"."inbox_line", "infra"."outbox_line" to oncebox_functions;
grant select, insert, delete on "infra"."inbox_arrived", "infra"."outbox_arrived" to oncebox_functions;
