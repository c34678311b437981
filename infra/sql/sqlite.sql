-- sqlite: the oncebox schema. Made by npm run render:sql; do not edit.

create table if not exists "oncebox_migrations" (
  queue text not null,
  number integer not null,
  name text not null,
  applied_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  primary key (queue, number)
) strict;

create table if not exists "oncebox_operations" (
  id text primary key,
  started_at integer not null,
  who text not null,
  action text not null,
  queue text not null,
  filter text not null,
  matched integer not null default 0,
  done integer not null default 0,
  last_seq integer not null default 0,
  ended_at integer,
  -- who went on with it last, after an interruption
  resumed_by text,
  resumed_at integer
) strict;

create table "Inbox" (
  seq integer primary key,
  source text not null,
  message_id text not null,
  topic text not null,
  first_seen_at integer not null,
  last_seen_at integer not null,
  deliveries integer not null default 1,
  -- the last delivery brought another hash than the one before it
  content_changed integer not null default 0,
  due_at integer,
  expires_at integer,
  hash blob,
  correlation_id text,
  headers text,
  partition_key text,
  payload text not null,
  unique (source, message_id)
) strict;

create table "InboxState" (
  seq integer primary key,
  status integer not null,
  attempt integer not null default 0,
  visible_at integer not null,
  locked_until integer,
  owner text,
  crashes integer not null default 0,
  expires_at integer,
  processed_at integer,
  processed_by text,
  -- not of a done message: there it is processed_at
  last_attempt_at integer,
  -- of a dead message, and of no other
  died_at integer,
  last_error text,
  -- the same for errors that differ in ids and numbers only
  error_group text,
  -- since when it was claimable at its last claim; null when that was of an unclaimed message
  due_since integer,
  -- the control that has parked the message
  parked_by integer,
  -- the limits that have let it pass since it was last claimed, such as ',3,9,'
  passes text,
  -- of a done message that an operator has ended: archived or replaced
  ended_as text
) strict;

create index "InboxReady" on "InboxState" (visible_at, seq) where status = 1;

create index "InboxHeld" on "InboxState" (visible_at, seq) where status = 2;

create index "InboxLeased" on "InboxState" (visible_at, seq) where status = 6;

create index "InboxEndedAs" on "InboxState" (seq, ended_as) where ended_as is not null;

create index "InboxDead" on "InboxState" (seq, error_group, died_at) where died_at is not null;

create index "InboxExpiry" on "InboxState" (expires_at) where expires_at is not null and status in (1, 2, 5, 4, 7);

create table "InboxCursor" (
  id integer primary key check (id = 1),
  seq integer not null,
  last_deleted integer not null
) strict;

insert into "InboxCursor" (id, seq, last_deleted) values (1, 0, 0);

create table "InboxPartitionQueue" (
  position integer primary key,
  partition_key text not null,
  seq integer not null unique
) strict;

create index "InboxPartitionOrder" on "InboxPartitionQueue" (partition_key, position);

create trigger "InboxMakeHeadReady"
after delete on "InboxPartitionQueue"
begin
  update "InboxState"
  set status = 1
  where status = 5 and seq = (
    select seq from "InboxPartitionQueue" where partition_key = old.partition_key order by position limit 1
  );
end;

create table "InboxAttempts" (
  number integer primary key,
  seq integer not null,
  attempt integer not null,
  ended_at integer not null,
  worker text,
  error text
) strict;

create index "InboxAttemptsOfMessage" on "InboxAttempts" (seq);

create trigger "InboxForgetAttempts"
after insert on "InboxAttempts"
begin
  delete from "InboxAttempts"
  where seq = new.seq and number <= (
    select number from "InboxAttempts" where seq = new.seq order by number desc limit 1 offset 50
  );
end;

create trigger "InboxRecordLostAttempt"
after update of crashes on "InboxState"
when new.crashes > old.crashes and old.locked_until is not null
begin
  insert into "InboxAttempts" (seq, attempt, ended_at, worker, error)
  values (new.seq, new.attempt, old.locked_until, old.owner, 'The lease expired: its worker crashed, was cut off, or took too long without renewing.');
end;

create table "InboxArchive" (
  seq integer primary key,
  source text not null,
  message_id text not null,
  topic text not null,
  partition_key text,
  payload text not null,
  correlation_id text,
  headers text,
  enqueued_at integer not null,
  attempt integer not null,
  last_error text,
  error_group text,
  -- the failed attempts, as JSON
  attempts text not null,
  died_at integer not null,
  archived_at integer not null,
  archived_by text not null
) strict;

create index "InboxCorrelation" on "Inbox" (correlation_id) where correlation_id is not null;

create table "InboxControls" (
  id integer primary key autoincrement,
  scope text not null,
  -- the topic or source; empty for the whole queue
  name text not null,
  paused integer not null,
  per_second real,
  -- how many messages the limit lets pass, as of refilled_at
  tokens real not null default 1,
  refilled_at integer not null,
  who text not null,
  changed_at integer not null,
  unique (scope, name)
) strict;

create index "InboxParked" on "InboxState" (parked_by, visible_at, seq) where status = 7;

create trigger "InboxAddState"
after insert on "Inbox"
when new.topic = '' or new.due_at is not null or new.expires_at is not null or new.partition_key is not null
begin
  insert into "InboxPartitionQueue" (partition_key, seq)
  select new.partition_key, new.seq where new.partition_key is not null;
  insert into "InboxState" (seq, status, visible_at, expires_at)
  values (
    new.seq,
    case
      when new.topic = '' then 0
      when new.partition_key is not null and exists (
    select 1 from "InboxPartitionQueue" q
    join "InboxPartitionQueue" before on before.partition_key = q.partition_key and before.position < q.position
    where q.seq = new.seq
  ) then 5
      else 1
    end,
    coalesce(new.due_at, new.first_seen_at),
    new.expires_at
  );
end;

create trigger "InboxApplyRedelivery"
after update of topic on "Inbox"
when new.topic <> '' and (
  old.due_at is not new.due_at or old.expires_at is not new.expires_at
  or exists (select 1 from "InboxState" where seq = new.seq and (status = 0 or (status = 2 and visible_at = 253402214400000) or (status = 6 and (locked_until is null or locked_until <= new.last_seen_at))))
)
begin
  insert into "InboxState" (seq, status, visible_at, expires_at)
  select new.seq, 1, coalesce(new.due_at, new.first_seen_at), new.expires_at
  where (new.due_at is not null or new.expires_at is not null) and not exists (select 1 from "InboxState" where seq = new.seq);
  update "InboxState"
  set visible_at = case when attempt = 0 then coalesce(new.due_at, new.first_seen_at) else max(visible_at, coalesce(new.due_at, 0)) end,
    -- an expiry that a replay took away stays away when the same delivery comes again
    expires_at = case when old.expires_at is new.expires_at then expires_at else new.expires_at end
  where seq = new.seq and (status in (1, 5, 7)
    or (status = 2 and locked_until is null and visible_at < 253402214400000))
    and (old.due_at is not new.due_at or old.expires_at is not new.expires_at);
  update "InboxState"
  set status = 1, attempt = 0, crashes = 0, owner = null, locked_until = null,
    visible_at = coalesce(new.due_at, new.last_seen_at), expires_at = new.expires_at
  where seq = new.seq and (status = 0 or (status = 2 and visible_at = 253402214400000) or (status = 6 and (locked_until is null or locked_until <= new.last_seen_at)));
  insert into "InboxPartitionQueue" (partition_key, seq)
  select new.partition_key, new.seq
  where new.partition_key is not null
    and exists (select 1 from "InboxState" where seq = new.seq and status = 1)
  on conflict (seq) do nothing;
  update "InboxState"
  set status = 5
  where new.partition_key is not null and seq = new.seq and status = 1 and exists (
    select 1 from "InboxPartitionQueue" q
    join "InboxPartitionQueue" before on before.partition_key = q.partition_key and before.position < q.position
    where q.seq = new.seq
  );
end;

create trigger "InboxRemoveState"
after delete on "Inbox"
begin
  delete from "InboxState" where seq = old.seq;
  delete from "InboxAttempts" where seq = old.seq;
  delete from "InboxPartitionQueue" where old.partition_key is not null and seq = old.seq;
  update "InboxCursor"
  set last_deleted = old.seq
  where last_deleted < old.seq and not exists (select 1 from "Inbox" where seq > old.seq);
end;

insert into "oncebox_migrations" (queue, number, name) values ('inbox:Inbox', 1, 'inbox');

drop view if exists "InboxMessages";

create view "InboxMessages" as
select
  m.source as Source,
  m.message_id as MessageId,
  m.topic as Topic,
  m.payload as Payload,
  m.hash as Hash,
  strftime('%Y-%m-%dT%H:%M:%fZ', m.first_seen_at / 1000.0, 'unixepoch') as FirstSeenUtc,
  strftime('%Y-%m-%dT%H:%M:%fZ', m.last_seen_at / 1000.0, 'unixepoch') as LastSeenUtc,
  case
    when s.status = 3 then coalesce(s.ended_as, 'done')
    when (s.status = 0 or (s.status = 6 and s.locked_until is null)) then 'seen'
    when s.status = 4 then 'dead'
    when s.locked_until is not null then 'running'
    when exists (select 1 from "InboxControls" c where c.paused and case c.scope when 'topic' then c.name = m.topic when 'source' then c.name = m.source else true end) then 'paused'
    when s.attempt > 0 then 'retrying'
    else 'waiting'
  end as Status,
  case
    when s.status = 3 then 'Done'
    when (s.status = 0 or (s.status = 6 and s.locked_until is null)) then 'Seen'
    when s.status = 4 then 'Dead'
    else 'Processing'
  end as State,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.locked_until / 1000.0, 'unixepoch') as LockedUntil,
  s.owner as OwnerToken,
  coalesce(s.attempt, 0) as Attempt,
  s.last_error as LastError,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(s.visible_at, m.first_seen_at) / 1000.0, 'unixepoch') as NextAttemptAt,
  strftime('%Y-%m-%dT%H:%M:%fZ', m.due_at / 1000.0, 'unixepoch') as DueTimeUtc,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.expires_at / 1000.0, 'unixepoch') as ExpiresAt,
  m.correlation_id as CorrelationId,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.processed_at / 1000.0, 'unixepoch') as ProcessedAt,
  m.deliveries as Deliveries,
  m.partition_key as PartitionKey,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(s.processed_at, s.last_attempt_at) / 1000.0, 'unixepoch') as LastAttemptAt
from "Inbox" m
left join "InboxState" s on s.seq = m.seq;

create table "Outbox" (
  seq integer primary key,
  id text not null unique,
  message_id text not null,
  topic text not null,
  created_at integer not null,
  due_at integer,
  expires_at integer,
  correlation_id text,
  headers text,
  partition_key text,
  natural_key text,
  payload text not null
) strict;

create unique index "OutboxNaturalKey" on "Outbox" (topic, natural_key) where natural_key is not null;

create table "OutboxState" (
  seq integer primary key,
  status integer not null,
  attempt integer not null default 0,
  visible_at integer not null,
  locked_until integer,
  owner text,
  crashes integer not null default 0,
  expires_at integer,
  processed_at integer,
  processed_by text,
  -- not of a done message: there it is processed_at
  last_attempt_at integer,
  -- of a dead message, and of no other
  died_at integer,
  last_error text,
  -- the same for errors that differ in ids and numbers only
  error_group text,
  -- since when it was claimable at its last claim; null when that was of an unclaimed message
  due_since integer,
  -- the control that has parked the message
  parked_by integer,
  -- the limits that have let it pass since it was last claimed, such as ',3,9,'
  passes text
) strict;

create index "OutboxReady" on "OutboxState" (visible_at, seq) where status = 1;

create index "OutboxHeld" on "OutboxState" (visible_at, seq) where status = 2;

create index "OutboxDead" on "OutboxState" (seq, error_group, died_at) where died_at is not null;

create index "OutboxExpiry" on "OutboxState" (expires_at) where expires_at is not null and status in (1, 2, 5, 4, 7);

create table "OutboxCursor" (
  id integer primary key check (id = 1),
  seq integer not null,
  last_deleted integer not null
) strict;

insert into "OutboxCursor" (id, seq, last_deleted) values (1, 0, 0);

create table "OutboxPartitionQueue" (
  position integer primary key,
  partition_key text not null,
  seq integer not null unique
) strict;

create index "OutboxPartitionOrder" on "OutboxPartitionQueue" (partition_key, position);

create trigger "OutboxMakeHeadReady"
after delete on "OutboxPartitionQueue"
begin
  update "OutboxState"
  set status = 1
  where status = 5 and seq = (
    select seq from "OutboxPartitionQueue" where partition_key = old.partition_key order by position limit 1
  );
end;

create table "OutboxAttempts" (
  number integer primary key,
  seq integer not null,
  attempt integer not null,
  ended_at integer not null,
  worker text,
  error text
) strict;

create index "OutboxAttemptsOfMessage" on "OutboxAttempts" (seq);

create trigger "OutboxForgetAttempts"
after insert on "OutboxAttempts"
begin
  delete from "OutboxAttempts"
  where seq = new.seq and number <= (
    select number from "OutboxAttempts" where seq = new.seq order by number desc limit 1 offset 50
  );
end;

create trigger "OutboxRecordLostAttempt"
after update of crashes on "OutboxState"
when new.crashes > old.crashes and old.locked_until is not null
begin
  insert into "OutboxAttempts" (seq, attempt, ended_at, worker, error)
  values (new.seq, new.attempt, old.locked_until, old.owner, 'The lease expired: its worker crashed, was cut off, or took too long without renewing.');
end;

create table "OutboxArchive" (
  seq integer primary key,
  id text not null,
  message_id text not null,
  topic text not null,
  partition_key text,
  payload text not null,
  correlation_id text,
  headers text,
  enqueued_at integer not null,
  attempt integer not null,
  last_error text,
  error_group text,
  -- the failed attempts, as JSON
  attempts text not null,
  died_at integer not null,
  archived_at integer not null,
  archived_by text not null
) strict;

create index "OutboxCorrelation" on "Outbox" (correlation_id) where correlation_id is not null;

create table "OutboxControls" (
  id integer primary key autoincrement,
  scope text not null,
  -- the topic or source; empty for the whole queue
  name text not null,
  paused integer not null,
  per_second real,
  -- how many messages the limit lets pass, as of refilled_at
  tokens real not null default 1,
  refilled_at integer not null,
  who text not null,
  changed_at integer not null,
  unique (scope, name)
) strict;

create index "OutboxParked" on "OutboxState" (parked_by, visible_at, seq) where status = 7;

create trigger "OutboxAddState"
after insert on "Outbox"
when new.topic = '' or new.due_at is not null or new.expires_at is not null or new.partition_key is not null
begin
  insert into "OutboxPartitionQueue" (partition_key, seq)
  select new.partition_key, new.seq where new.partition_key is not null;
  insert into "OutboxState" (seq, status, visible_at, expires_at)
  values (
    new.seq,
    case
      when new.topic = '' then 0
      when new.partition_key is not null and exists (
    select 1 from "OutboxPartitionQueue" q
    join "OutboxPartitionQueue" before on before.partition_key = q.partition_key and before.position < q.position
    where q.seq = new.seq
  ) then 5
      else 1
    end,
    coalesce(new.due_at, new.created_at),
    new.expires_at
  );
end;

create trigger "OutboxRemoveState"
after delete on "Outbox"
begin
  delete from "OutboxState" where seq = old.seq;
  delete from "OutboxAttempts" where seq = old.seq;
  delete from "OutboxPartitionQueue" where old.partition_key is not null and seq = old.seq;
  update "OutboxCursor"
  set last_deleted = old.seq
  where last_deleted < old.seq and not exists (select 1 from "Outbox" where seq > old.seq);
end;

insert into "oncebox_migrations" (queue, number, name) values ('outbox:Outbox', 1, 'outbox');

drop view if exists "OutboxMessages";

create view "OutboxMessages" as
select
  m.id as Id,
  m.topic as Topic,
  m.payload as Payload,
  strftime('%Y-%m-%dT%H:%M:%fZ', m.created_at / 1000.0, 'unixepoch') as CreatedAt,
  case
    when s.status = 3 then 'done'
    when s.status = 4 then 'dead'
    when s.locked_until is not null then 'running'
    when exists (select 1 from "OutboxControls" c where c.paused and case c.scope when 'topic' then c.name = m.topic when 'source' then false else true end) then 'paused'
    when s.attempt > 0 then 'retrying'
    else 'waiting'
  end as Status,
  case
    when s.status = 3 then 'Done'
    when s.status = 4 then 'Failed'
    when s.locked_until is not null then 'InProgress'
    else 'Ready'
  end as State,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.locked_until / 1000.0, 'unixepoch') as LockedUntil,
  s.owner as OwnerToken,
  coalesce(s.status, 1) = 3 as IsProcessed,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.processed_at / 1000.0, 'unixepoch') as ProcessedAt,
  s.processed_by as ProcessedBy,
  coalesce(s.attempt, 0) as RetryCount,
  s.last_error as LastError,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(s.visible_at, m.created_at) / 1000.0, 'unixepoch') as NextAttemptAt,
  m.message_id as MessageId,
  m.correlation_id as CorrelationId,
  strftime('%Y-%m-%dT%H:%M:%fZ', m.due_at / 1000.0, 'unixepoch') as DueTimeUtc,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.expires_at / 1000.0, 'unixepoch') as ExpiresAt,
  m.partition_key as PartitionKey,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(s.processed_at, s.last_attempt_at) / 1000.0, 'unixepoch') as LastAttemptAt,
  m.headers as Headers,
  m.natural_key as NaturalKey
from "Outbox" m
left join "OutboxState" s on s.seq = m.seq;
