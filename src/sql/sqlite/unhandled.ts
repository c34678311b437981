import type { QueueNames } from "../names.js";
import { unhandledKeptMs } from "../store-options.js";
import { field, limit, now, unhandledTable } from "./expressions.js";

/** Topics whose messages were acknowledged without a handler: see docs/decisions/0039. */
export const createUnhandled = (n: QueueNames): string => `create table ${unhandledTable(n)} (
  topic text primary key,
  messages integer not null,
  last_seen_at integer not null
) strict`;

/** Steps: adds to the topics, and forgets those that have not been seen for long. */
export const recordUnhandled = (n: QueueNames): readonly string[] => [
  `insert into ${unhandledTable(n)} (topic, messages, last_seen_at)
select ${field("topic")}, ${field("messages")}, ${now}
from json_each(:items) i
where true
on conflict (topic) do update
set messages = messages + excluded.messages, last_seen_at = max(last_seen_at, excluded.last_seen_at)`,
  `delete from ${unhandledTable(n)} where last_seen_at < ${now} - ${unhandledKeptMs}`,
];

export const readUnhandled = (n: QueueNames): string => `select topic, messages, last_seen_at
from ${unhandledTable(n)}
order by last_seen_at desc, topic
limit ${limit}`;
