import type { QueueNames } from "../names.js";
import { unhandledKeptMs } from "../store-options.js";
import { epochMs, ms, now, unhandledTable } from "./expressions.js";

/** Topics whose messages were acknowledged without a handler: see docs/decisions/0039. */
export const unhandledRows = (n: QueueNames): string => `create table ${unhandledTable(n)} (
  topic varchar(255) collate "C" primary key,
  messages bigint not null,
  last_seen_at timestamptz not null
)`;

/**
 * Adds to the topics, in their order, so that two workers do not deadlock. Forgets those that have not been seen for long, unless
 * another worker is changing them.
 */
export const recordUnhandled = (n: QueueNames): string => `with seen as (
  select i.topic, i.messages
  from json_to_recordset(:items::json) as i(topic text, messages bigint)
), recorded as (
  insert into ${unhandledTable(n)} as u (topic, messages, last_seen_at)
  select topic, messages, ${now}
  from seen
  order by topic collate "C"
  on conflict (topic) do update
  set messages = u.messages + excluded.messages, last_seen_at = greatest(u.last_seen_at, excluded.last_seen_at)
)
delete from ${unhandledTable(n)} u
where u.topic = any (array(
  select o.topic
  from ${unhandledTable(n)} o
  where o.last_seen_at < ${now} - ${ms(`${unhandledKeptMs}::float8`)} and not exists (select from seen where seen.topic = o.topic)
  for update skip locked
))`;

export const readUnhandled = (
  n: QueueNames,
): string => `select topic, messages::float8 as messages, ${epochMs("last_seen_at")} as last_seen_at
from ${unhandledTable(n)} u
order by u.last_seen_at desc, topic
limit (select :limit::int)`;
