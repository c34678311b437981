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
  -- no number is used twice: the archive keeps them
  seq integer primary key autoincrement,
  source text not null,
  message_id text not null,
  topic text not null,
  first_seen_at integer not null,
  last_seen_at integer not null,
  deliveries integer not null default 1,
  -- the last delivery brought another hash than the one before it, by the same algorithm
  content_changed integer not null default 0,
  due_at integer,
  expires_at integer,
  -- an algorithm and hexadecimal digits, as sha256:9f86d081, or only digits where no algorithm was given
  hash text,
  correlation_id text,
  headers text,
  partition_key text,
  payload text not null,
  unique (source, message_id)
) strict;

create table "InboxState" (
  seq integer primary key,
  status integer not null,
  visible_at integer not null,
  -- of a message that was leased: the time from which other workers may take it over
  reclaimable_at integer,
  locked_until integer,
  owner text,
  attempt integer not null default 0,
  crashes integer not null default 0,
  expires_at integer,
  -- 1 for a message with a partition key, else null
  keyed integer,
  -- not of a done message: there it is processed_at
  last_attempt_at integer,
  -- of a dead message
  died_at integer,
  last_error text,
  -- the same for errors that differ in ids and numbers only
  error_group text,
  -- of a message that was claimed after a crash: since when it was claimable
  due_since integer
) strict;

create index "InboxReady" on "InboxState" (visible_at, seq) where status = 1;

create index "InboxDead" on "InboxState" (seq, error_group, died_at) where status = 4;

create table "InboxDone" (
  seq integer primary key,
  processed_at integer not null,
  attempt integer not null,
  processed_by text,
  last_error text,
  -- of a message that an operator has resolved: archived or replaced
  resolution text
) strict;

create index "InboxResolution" on "InboxDone" (seq, resolution) where resolution is not null;

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

create table "InboxControls" (
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
  primary key (scope, name)
) strict;

create index "InboxCorrelation" on "Inbox" (correlation_id) where correlation_id is not null;

create trigger "InboxRemoveState"
after delete on "Inbox"
begin
  delete from "InboxState" where seq = old.seq;
  delete from "InboxDone" where seq = old.seq;
  delete from "InboxAttempts" where seq = old.seq;
  delete from "InboxPartitionQueue" where old.partition_key is not null and seq = old.seq;
end;

create table "InboxKeys" (
  source text not null,
  key text not null,
  -- null when the key was released or is processed
  lease_id text,
  -- the end of the last lease
  locked_until integer,
  -- how often it was leased
  attempt integer not null,
  -- the name that the holder gave
  owner text,
  first_seen_at integer not null,
  last_seen_at integer not null,
  processed_at integer,
  -- the lease that finished it: the same call again finds that it was done
  processed_by text,
  primary key (source, key)
) strict;

create index "InboxKeysSeen" on "InboxKeys" (source, first_seen_at);

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
    when s.seq is null then coalesce(d.resolution, 'done')
    when s.status = 0 then 'seen'
    when s.status = 4 then 'dead'
    when s.locked_until is not null then 'running'
    when exists (select 1 from "InboxControls" c where c.paused and case c.scope when 'topic' then c.name = m.topic when 'source' then c.name = m.source else true end) then 'paused'
    when s.attempt > 0 then 'retrying'
    else 'waiting'
  end as Status,
  case
    when s.seq is null then 'Done'
    when s.status = 0 then 'Seen'
    when s.status = 4 then 'Dead'
    else 'Processing'
  end as State,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.locked_until / 1000.0, 'unixepoch') as LockedUntil,
  s.owner as OwnerToken,
  coalesce(s.attempt, d.attempt) as Attempt,
  coalesce(s.last_error, d.last_error) as LastError,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(s.reclaimable_at, s.visible_at) / 1000.0, 'unixepoch') as NextAttemptAt,
  strftime('%Y-%m-%dT%H:%M:%fZ', m.due_at / 1000.0, 'unixepoch') as DueTimeUtc,
  strftime('%Y-%m-%dT%H:%M:%fZ', iif(s.seq is null, m.expires_at, s.expires_at) / 1000.0, 'unixepoch') as ExpiresAt,
  m.correlation_id as CorrelationId,
  strftime('%Y-%m-%dT%H:%M:%fZ', d.processed_at / 1000.0, 'unixepoch') as ProcessedAt,
  m.deliveries as Deliveries,
  m.partition_key as PartitionKey,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(d.processed_at, s.last_attempt_at) / 1000.0, 'unixepoch') as LastAttemptAt
from "Inbox" m
left join "InboxState" s on s.seq = m.seq
left join "InboxDone" d on d.seq = m.seq;

create table "Outbox" (
  -- no number is used twice: the archive keeps them
  seq integer primary key autoincrement,
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
  visible_at integer not null,
  -- of a message that was leased: the time from which other workers may take it over
  reclaimable_at integer,
  locked_until integer,
  owner text,
  attempt integer not null default 0,
  crashes integer not null default 0,
  expires_at integer,
  -- 1 for a message with a partition key, else null
  keyed integer,
  -- not of a done message: there it is processed_at
  last_attempt_at integer,
  -- of a dead message
  died_at integer,
  last_error text,
  -- the same for errors that differ in ids and numbers only
  error_group text,
  -- of a message that was claimed after a crash: since when it was claimable
  due_since integer
) strict;

create index "OutboxReady" on "OutboxState" (visible_at, seq) where status = 1;

create index "OutboxDead" on "OutboxState" (seq, error_group, died_at) where status = 4;

create table "OutboxDone" (
  seq integer primary key,
  processed_at integer not null,
  attempt integer not null,
  processed_by text,
  last_error text
) strict;

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

create table "OutboxControls" (
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
  primary key (scope, name)
) strict;

create index "OutboxCorrelation" on "Outbox" (correlation_id) where correlation_id is not null;

create trigger "OutboxRemoveState"
after delete on "Outbox"
begin
  delete from "OutboxState" where seq = old.seq;
  delete from "OutboxDone" where seq = old.seq;
  delete from "OutboxAttempts" where seq = old.seq;
  delete from "OutboxPartitionQueue" where old.partition_key is not null and seq = old.seq;
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
    when s.seq is null then 'done'
    when s.status = 4 then 'dead'
    when s.locked_until is not null then 'running'
    when exists (select 1 from "OutboxControls" c where c.paused and case c.scope when 'topic' then c.name = m.topic when 'source' then false else true end) then 'paused'
    when s.attempt > 0 then 'retrying'
    else 'waiting'
  end as Status,
  case
    when s.seq is null then 'Done'
    when s.status = 4 then 'Failed'
    when s.locked_until is not null then 'InProgress'
    else 'Ready'
  end as State,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.locked_until / 1000.0, 'unixepoch') as LockedUntil,
  s.owner as OwnerToken,
  s.seq is null as IsProcessed,
  strftime('%Y-%m-%dT%H:%M:%fZ', d.processed_at / 1000.0, 'unixepoch') as ProcessedAt,
  d.processed_by as ProcessedBy,
  coalesce(s.attempt, d.attempt) as RetryCount,
  coalesce(s.last_error, d.last_error) as LastError,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(s.reclaimable_at, s.visible_at) / 1000.0, 'unixepoch') as NextAttemptAt,
  m.message_id as MessageId,
  m.correlation_id as CorrelationId,
  strftime('%Y-%m-%dT%H:%M:%fZ', m.due_at / 1000.0, 'unixepoch') as DueTimeUtc,
  strftime('%Y-%m-%dT%H:%M:%fZ', iif(s.seq is null, m.expires_at, s.expires_at) / 1000.0, 'unixepoch') as ExpiresAt,
  m.partition_key as PartitionKey,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(d.processed_at, s.last_attempt_at) / 1000.0, 'unixepoch') as LastAttemptAt,
  m.headers as Headers,
  m.natural_key as NaturalKey
from "Outbox" m
left join "OutboxState" s on s.seq = m.seq
left join "OutboxDone" d on d.seq = m.seq;
