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

create table "InboxMessages" (
  -- no number is used twice: the archive keeps them
  seq integer primary key autoincrement,
  source text not null,
  message_id text not null,
  topic text not null,
  -- of the event; null where it is the topic
  type text,
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
  type text,
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

create table "InboxUnhandled" (
  topic text primary key,
  messages integer not null,
  last_seen_at integer not null
) strict;

create index "InboxCorrelation" on "InboxMessages" (correlation_id) where correlation_id is not null;

create trigger "InboxRemoveState"
after delete on "InboxMessages"
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

drop view if exists "Inbox";

create view "Inbox" as
select
  m.source as Source,
  m.message_id as MessageId,
  m.topic as Topic,
  m.payload as Payload,
  substr(m.hash, instr(m.hash, ':') + 1) as Hash,
  strftime('%Y-%m-%dT%H:%M:%fZ', m.first_seen_at / 1000.0, 'unixepoch') as FirstSeenUtc,
  strftime('%Y-%m-%dT%H:%M:%fZ', m.last_seen_at / 1000.0, 'unixepoch') as LastSeenUtc,
  case
    when s.seq is null then 'Done'
    when s.status = 0 then 'Seen'
    when s.status = 4 then 'Dead'
    else 'Processing'
  end as Status,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.locked_until / 1000.0, 'unixepoch') as LockedUntil,
  s.owner as OwnerToken,
  coalesce(s.attempt, d.attempt) as Attempt,
  coalesce(s.last_error, d.last_error) as LastError,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(s.reclaimable_at, s.visible_at, d.processed_at) / 1000.0, 'unixepoch') as NextAttemptAt,
  strftime('%Y-%m-%dT%H:%M:%fZ', m.due_at / 1000.0, 'unixepoch') as DueTimeUtc,
  case
    when s.seq is null then coalesce(d.resolution, 'done')
    when s.status = 0 then 'seen'
    when s.status = 4 then 'dead'
    when s.locked_until is not null then 'running'
    when exists (select 1 from "InboxControls" c where c.paused and case c.scope when 'topic' then c.name = m.topic when 'source' then c.name = m.source else true end) then 'paused'
    when s.attempt > 0 then 'retrying'
    else 'waiting'
  end as Phase,
  iif(instr(m.hash, ':'), substr(m.hash, 1, instr(m.hash, ':') - 1), null) as HashAlgorithm,
  strftime('%Y-%m-%dT%H:%M:%fZ', iif(s.seq is null, m.expires_at, s.expires_at) / 1000.0, 'unixepoch') as ExpiresAt,
  m.correlation_id as CorrelationId,
  strftime('%Y-%m-%dT%H:%M:%fZ', d.processed_at / 1000.0, 'unixepoch') as ProcessedAt,
  m.deliveries as Deliveries,
  m.partition_key as PartitionKey,
  coalesce(m.type, m.topic) as Type,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(d.processed_at, s.last_attempt_at) / 1000.0, 'unixepoch') as LastAttemptAt
from "InboxMessages" m
left join "InboxState" s on s.seq = m.seq
left join "InboxDone" d on d.seq = m.seq;

drop view if exists "Inbox_Receive";

drop view if exists "Inbox_Receiving";

create view "Inbox_Receive" as
select m.source as source, m.message_id as message_id, m.topic as topic, m.type as type, m.payload as payload, m.correlation_id as correlation_id, m.headers as headers, m.due_at as due_at, m.expires_at as expires_at, m.hash as hash, m.partition_key as partition_key,
  -- of the last delivery
  case
    when m.content_changed then 'conflict'
    when m.deliveries = 1 then 'enqueued'
    when coalesce(s.status, 3) = 3 then 'done'
    when coalesce(s.status, 3) = 4 then 'dead'
    else 'duplicate'
  end as outcome
from "InboxMessages" m
left join "InboxState" s on s.seq = m.seq
left join "InboxDone" d on d.seq = m.seq;

create view "Inbox_Receiving" as
select source, message_id, topic, type, payload, correlation_id, headers, due_at, expires_at, hash, partition_key, 0 as seq, 0 as enqueued, 0 as now
from "InboxMessages";

create trigger "Inbox_CheckReceive"
instead of insert on "Inbox_Receive"
begin
  select case
    when typeof(new.source) <> 'text' or new.source = '' or length(new.source) > 255 or substr(new.source, -1) = ' ' or instr(new.source, char(0)) then raise(abort, 'source must have 1 to 255 characters, and no space at its end.')
    when typeof(new.message_id) <> 'text' or new.message_id = '' or length(new.message_id) > 255 or substr(new.message_id, -1) = ' ' or instr(new.message_id, char(0)) then raise(abort, 'message_id must have 1 to 255 characters, and no space at its end.')
    when typeof(new.topic) <> 'text' or new.topic = '' or length(new.topic) > 255 or substr(new.topic, -1) = ' ' or instr(new.topic, char(0)) then raise(abort, 'topic must have 1 to 255 characters, and no space at its end.')
    when new.type is not null and (typeof(new.type) <> 'text' or new.type = '' or length(new.type) > 255 or substr(new.type, -1) = ' ' or instr(new.type, char(0))) then raise(abort, 'type must have 1 to 255 characters, and no space at its end.')
    when new.partition_key is not null and (typeof(new.partition_key) <> 'text' or new.partition_key = '' or length(new.partition_key) > 255 or substr(new.partition_key, -1) = ' ' or instr(new.partition_key, char(0))) then raise(abort, 'partition_key must have 1 to 255 characters, and no space at its end.')
    when new.correlation_id <> '' and (typeof(new.correlation_id) <> 'text' or new.correlation_id = '' or length(new.correlation_id) > 255 or substr(new.correlation_id, -1) = ' ' or instr(new.correlation_id, char(0))) then raise(abort, 'correlation_id must have 1 to 255 characters, and no space at its end.')
    when typeof(new.payload) <> 'text' then raise(abort, 'payload must be given; it may be empty.')
    when new.due_at is not null and coalesce(case when typeof(new.due_at) in ('null', 'integer') then new.due_at else cast(round((julianday(new.due_at) - 2440587.5) * 86400000) as integer) end not between 0 and 253339228800000, 1) then raise(abort, 'due_at must be a time between the years 1970 and 9998.')
    when new.expires_at is not null and coalesce(case when typeof(new.expires_at) in ('null', 'integer') then new.expires_at else cast(round((julianday(new.expires_at) - 2440587.5) * 86400000) as integer) end not between 0 and 253339228800000, 1) then raise(abort, 'expires_at must be a time between the years 1970 and 9998.')
    when typeof(new.hash) not in ('null', 'text') or instr(new.hash, char(0)) or substr(new.hash, instr(new.hash, ':') + 1) glob '*[^0-9a-fA-F]*' or (length(new.hash) - instr(new.hash, ':')) % 2 or instr(new.hash, ':') and (instr(new.hash, ':') = length(new.hash) or instr(new.hash, ':') not between 2 and 33) or substr(new.hash, 1, instr(new.hash, ':') - 1) glob '*[^0-9a-zA-Z_-]*' or new.hash glob '[_-]*' then raise(abort, 'hash must be an algorithm, a colon and hexadecimal digits, such as sha256:9f86d081, or only the digits.')
    when new.headers is not null and not json_valid(new.headers) then raise(abort, 'headers must be a JSON object whose values are strings.')
    when json_type(new.headers) <> 'object' then raise(abort, 'headers must be a JSON object whose values are strings.')
    when exists (select 1 from json_each(new.headers) where type <> 'text') then raise(abort, 'headers must be a JSON object whose values are strings.')
  end;
  insert into "Inbox_Receiving" (source, message_id, topic, type, payload, correlation_id, headers, due_at, expires_at, hash, partition_key, seq, enqueued, now)
  select i.source, i.message_id, i.topic, i.type, i.payload, i.correlation_id, i.headers, i.due_at, i.expires_at, i.hash, i.partition_key, m.seq,
    coalesce(s.status in (0, 2), 0), cast(round((julianday('now') - 2440587.5) * 86400000) as integer)
  from (select new.source as source, new.message_id as message_id, new.topic as topic, new.type as type, new.payload as payload, nullif(new.correlation_id, '') as correlation_id, new.headers as headers, case when typeof(new.due_at) in ('null', 'integer') then new.due_at else cast(round((julianday(new.due_at) - 2440587.5) * 86400000) as integer) end as due_at, case when typeof(new.expires_at) in ('null', 'integer') then new.expires_at else cast(round((julianday(new.expires_at) - 2440587.5) * 86400000) as integer) end as expires_at, lower(new.hash) as hash, new.partition_key as partition_key) i
  left join "InboxMessages" m on m.source = i.source and m.message_id = i.message_id
  left join "InboxState" s on s.seq = m.seq;
end;

create trigger "Inbox_AddReceived"
instead of insert on "Inbox_Receiving"
begin
  update "InboxState"
  set status = 1, attempt = 0, crashes = 0, died_at = null, visible_at = coalesce(new.due_at, new.now), reclaimable_at = null,
    owner = null, locked_until = null, expires_at = new.expires_at, keyed = iif(new.partition_key is null, null, 1)
  where seq = new.seq and new.enqueued;
  insert into "InboxMessages" (source, message_id, topic, type, payload, correlation_id, headers, due_at, expires_at, hash, partition_key, first_seen_at, last_seen_at)
  values (new.source, new.message_id, new.topic, new.type, new.payload, new.correlation_id, new.headers, new.due_at, new.expires_at, new.hash, new.partition_key, new.now, new.now)
  on conflict (source, message_id) do update
  set topic = iif(new.enqueued, new.topic, "InboxMessages".topic),
    type = iif(new.enqueued, new.type, "InboxMessages".type),
    payload = iif(new.enqueued, new.payload, "InboxMessages".payload),
    correlation_id = iif(new.enqueued, new.correlation_id, "InboxMessages".correlation_id),
    headers = iif(new.enqueued, new.headers, "InboxMessages".headers),
    due_at = iif(new.enqueued, new.due_at, "InboxMessages".due_at),
    expires_at = iif(new.enqueued, new.expires_at, "InboxMessages".expires_at),
    hash = iif(new.enqueued, coalesce(new.hash, "InboxMessages".hash), "InboxMessages".hash),
    partition_key = iif(new.enqueued, new.partition_key, "InboxMessages".partition_key),
    last_seen_at = new.now,
    deliveries = "InboxMessages".deliveries + 1,
    content_changed = coalesce("InboxMessages".hash <> new.hash and substr("InboxMessages".hash, 1, instr("InboxMessages".hash, ':')) = substr(new.hash, 1, instr(new.hash, ':')), 0);
  insert into "InboxState" (seq, status, visible_at, expires_at, keyed)
  select m.seq, 1, coalesce(m.due_at, m.first_seen_at), m.expires_at, iif(m.partition_key is null, null, 1)
  from "InboxMessages" m where m.source = new.source and m.message_id = new.message_id and new.seq is null;
  insert into "InboxPartitionQueue" (partition_key, seq)
  select m.partition_key, m.seq
  from "InboxMessages" m where m.source = new.source and m.message_id = new.message_id and (new.seq is null or new.enqueued) and m.partition_key is not null
    and exists (select 1 from "InboxState" s where s.seq = m.seq and s.status in (1, 5))
  on conflict (seq) do nothing;
  update "InboxState"
  set status = 5
  where status = 1 and keyed and seq = (select m.seq from "InboxMessages" m where m.source = new.source and m.message_id = new.message_id and (new.seq is null or new.enqueued)) and exists (
    select 1 from "InboxPartitionQueue" q
    join "InboxPartitionQueue" before on before.partition_key = q.partition_key and before.position < q.position
    where q.seq = "InboxState".seq
  );
end;

create table "OutboxMessages" (
  -- no number is used twice: the archive keeps them
  seq integer primary key autoincrement,
  id text not null unique,
  message_id text not null,
  topic text not null,
  -- of the event; null where it is the topic
  type text,
  created_at integer not null,
  due_at integer,
  expires_at integer,
  correlation_id text,
  headers text,
  partition_key text,
  natural_key text,
  payload text not null
) strict;

create unique index "OutboxNaturalKey" on "OutboxMessages" (topic, natural_key) where natural_key is not null;

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
  type text,
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

create table "OutboxUnhandled" (
  topic text primary key,
  messages integer not null,
  last_seen_at integer not null
) strict;

create index "OutboxCorrelation" on "OutboxMessages" (correlation_id) where correlation_id is not null;

create trigger "OutboxRemoveState"
after delete on "OutboxMessages"
begin
  delete from "OutboxState" where seq = old.seq;
  delete from "OutboxDone" where seq = old.seq;
  delete from "OutboxAttempts" where seq = old.seq;
  delete from "OutboxPartitionQueue" where old.partition_key is not null and seq = old.seq;
end;

insert into "oncebox_migrations" (queue, number, name) values ('outbox:Outbox', 1, 'outbox');

drop view if exists "Outbox";

create view "Outbox" as
select
  m.id as Id,
  m.topic as Topic,
  m.payload as Payload,
  strftime('%Y-%m-%dT%H:%M:%fZ', m.created_at / 1000.0, 'unixepoch') as CreatedAt,
  case
    when s.seq is null then 2
    when s.status = 4 then 3
    when s.locked_until is not null then 1
    else 0
  end as Status,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.locked_until / 1000.0, 'unixepoch') as LockedUntil,
  s.owner as OwnerToken,
  s.seq is null as IsProcessed,
  strftime('%Y-%m-%dT%H:%M:%fZ', d.processed_at / 1000.0, 'unixepoch') as ProcessedAt,
  d.processed_by as ProcessedBy,
  coalesce(s.attempt, d.attempt) as RetryCount,
  coalesce(s.last_error, d.last_error) as LastError,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(s.reclaimable_at, s.visible_at, d.processed_at) / 1000.0, 'unixepoch') as NextAttemptAt,
  m.message_id as MessageId,
  m.correlation_id as CorrelationId,
  strftime('%Y-%m-%dT%H:%M:%fZ', m.due_at / 1000.0, 'unixepoch') as DueTimeUtc,
  case
    when s.seq is null then 'done'
    when s.status = 4 then 'dead'
    when s.locked_until is not null then 'running'
    when exists (select 1 from "OutboxControls" c where c.paused and case c.scope when 'topic' then c.name = m.topic when 'source' then false else true end) then 'paused'
    when s.attempt > 0 then 'retrying'
    else 'waiting'
  end as Phase,
  strftime('%Y-%m-%dT%H:%M:%fZ', iif(s.seq is null, m.expires_at, s.expires_at) / 1000.0, 'unixepoch') as ExpiresAt,
  m.partition_key as PartitionKey,
  coalesce(m.type, m.topic) as Type,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(d.processed_at, s.last_attempt_at) / 1000.0, 'unixepoch') as LastAttemptAt,
  m.headers as Headers,
  m.natural_key as NaturalKey
from "OutboxMessages" m
left join "OutboxState" s on s.seq = m.seq
left join "OutboxDone" d on d.seq = m.seq;

drop view if exists "Outbox_Enqueue";

drop view if exists "Outbox_Enqueuing";

create view "Outbox_Enqueue" as
select topic, type, payload, correlation_id, headers, due_at, expires_at, partition_key, natural_key, id, message_id
from "OutboxMessages";

create view "Outbox_Enqueuing" as
select topic, type, payload, correlation_id, headers, due_at, expires_at, partition_key, natural_key, id, message_id, 0 as now
from "OutboxMessages";

create trigger "Outbox_CheckEnqueue"
instead of insert on "Outbox_Enqueue"
begin
  select case
    when typeof(new.topic) <> 'text' or new.topic = '' or length(new.topic) > 255 or substr(new.topic, -1) = ' ' or instr(new.topic, char(0)) then raise(abort, 'topic must have 1 to 255 characters, and no space at its end.')
    when new.type is not null and (typeof(new.type) <> 'text' or new.type = '' or length(new.type) > 255 or substr(new.type, -1) = ' ' or instr(new.type, char(0))) then raise(abort, 'type must have 1 to 255 characters, and no space at its end.')
    when new.partition_key is not null and (typeof(new.partition_key) <> 'text' or new.partition_key = '' or length(new.partition_key) > 255 or substr(new.partition_key, -1) = ' ' or instr(new.partition_key, char(0))) then raise(abort, 'partition_key must have 1 to 255 characters, and no space at its end.')
    when new.natural_key is not null and (typeof(new.natural_key) <> 'text' or new.natural_key = '' or length(new.natural_key) > 255 or substr(new.natural_key, -1) = ' ' or instr(new.natural_key, char(0))) then raise(abort, 'natural_key must have 1 to 255 characters, and no space at its end.')
    when new.correlation_id <> '' and (typeof(new.correlation_id) <> 'text' or new.correlation_id = '' or length(new.correlation_id) > 255 or substr(new.correlation_id, -1) = ' ' or instr(new.correlation_id, char(0))) then raise(abort, 'correlation_id must have 1 to 255 characters, and no space at its end.')
    when typeof(new.payload) <> 'text' then raise(abort, 'payload must be given; it may be empty.')
    when new.due_at is not null and coalesce(case when typeof(new.due_at) in ('null', 'integer') then new.due_at else cast(round((julianday(new.due_at) - 2440587.5) * 86400000) as integer) end not between 0 and 253339228800000, 1) then raise(abort, 'due_at must be a time between the years 1970 and 9998.')
    when new.expires_at is not null and coalesce(case when typeof(new.expires_at) in ('null', 'integer') then new.expires_at else cast(round((julianday(new.expires_at) - 2440587.5) * 86400000) as integer) end not between 0 and 253339228800000, 1) then raise(abort, 'expires_at must be a time between the years 1970 and 9998.')
    when new.id is not null and (new.id not glob '????????-????-????-????-????????????' or replace(new.id, '-', '') glob '*[^0-9a-fA-F]*') then raise(abort, 'id must be a GUID. Leave it out for a new one.')
    when new.message_id is not null and (new.message_id not glob '????????-????-????-????-????????????' or replace(new.message_id, '-', '') glob '*[^0-9a-fA-F]*') then raise(abort, 'message_id must be a GUID. Leave it out for a new one.')
    when new.headers is not null and not json_valid(new.headers) then raise(abort, 'headers must be a JSON object whose values are strings.')
    when json_type(new.headers) <> 'object' then raise(abort, 'headers must be a JSON object whose values are strings.')
    when exists (select 1 from json_each(new.headers) where type <> 'text') then raise(abort, 'headers must be a JSON object whose values are strings.')
  end;
  insert into "Outbox_Enqueuing" (topic, type, payload, correlation_id, headers, due_at, expires_at, partition_key, natural_key, id, message_id, now)
  values (new.topic, new.type, new.payload, nullif(new.correlation_id, ''), new.headers, case when typeof(new.due_at) in ('null', 'integer') then new.due_at else cast(round((julianday(new.due_at) - 2440587.5) * 86400000) as integer) end, case when typeof(new.expires_at) in ('null', 'integer') then new.expires_at else cast(round((julianday(new.expires_at) - 2440587.5) * 86400000) as integer) end, new.partition_key, new.natural_key, coalesce(lower(new.id), lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-' ||
    substr('89ab', 1 + abs(random() % 4), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))), lower(new.message_id), cast(round((julianday('now') - 2440587.5) * 86400000) as integer));
end;

create trigger "Outbox_AddEnqueued"
instead of insert on "Outbox_Enqueuing"
begin
  insert into "OutboxMessages" (topic, type, payload, correlation_id, headers, due_at, expires_at, partition_key, natural_key, id, message_id, created_at)
  values (new.topic, new.type, new.payload, new.correlation_id, new.headers, new.due_at, new.expires_at, new.partition_key, new.natural_key, new.id, coalesce(new.message_id, new.id), new.now)
  on conflict do nothing;
  insert into "OutboxState" (seq, status, visible_at, expires_at, keyed)
  select m.seq, 1, coalesce(m.due_at, m.created_at), m.expires_at, iif(m.partition_key is null, null, 1)
  from "OutboxMessages" m where m.id = new.id and not exists (select 1 from "OutboxDone" d where d.seq = m.seq)
  on conflict (seq) do nothing;
  insert into "OutboxPartitionQueue" (partition_key, seq)
  select m.partition_key, m.seq
  from "OutboxMessages" m where m.id = new.id and m.partition_key is not null
    and exists (select 1 from "OutboxState" s where s.seq = m.seq and s.status in (1, 5))
  on conflict (seq) do nothing;
  update "OutboxState"
  set status = 5
  where status = 1 and keyed and seq = (select m.seq from "OutboxMessages" m where m.id = new.id) and exists (
    select 1 from "OutboxPartitionQueue" q
    join "OutboxPartitionQueue" before on before.partition_key = q.partition_key and before.position < q.position
    where q.seq = "OutboxState".seq
  );
end;
