import type { QueueNames } from "../names.js";
import { unhandledKeptMs } from "../store-options.js";
import { addMs, binary, unhandledTable } from "./expressions.js";
import { atomically, countFreely, skipLocked } from "./procedure.js";

/** Topics whose messages were acknowledged without a handler: see docs/decisions/0039. */
export const createUnhandled = (n: QueueNames): string => `create table ${unhandledTable(n)} (
  topic nvarchar(255) ${binary} not null,
  messages bigint not null,
  last_seen_at datetime2(3) not null,
  constraint ${n.bare("Unhandled_PK")} primary key clustered (topic)
)`;

/** SERIALIZABLE locks a key before it is known to be missing, so that two workers do not both insert it. They lock in the topics' order. */
const lockKey = "forceseek, updlock, rowlock, serializable";

/** Adds to the topics. Forgets those that have not been seen for long, unless another worker is changing them. */
export const recordUnhandled = (
  n: QueueNames,
): string => `declare @seen table (topic nvarchar(255) ${binary} not null primary key, messages bigint not null);

insert into @seen (topic, messages)
select i.topic, i.messages
from openjson(@items) with (topic nvarchar(255), messages bigint) i;

${atomically(`update ${unhandledTable(n)}
set messages = ${n.bare("Unhandled")}.messages + s.messages, last_seen_at = @now
from @seen s, ${unhandledTable(n)} with (${lockKey})
where ${n.bare("Unhandled")}.topic = s.topic;

insert into ${unhandledTable(n)} (topic, messages, last_seen_at)
select s.topic, s.messages, @now
from @seen s
where not exists (select 1 from ${unhandledTable(n)} u with (${lockKey}) where u.topic = s.topic);`)}

declare @before datetime2(3) = ${addMs(n, "@now", `-${unhandledKeptMs}`)};
delete from ${unhandledTable(n)}
from ${unhandledTable(n)} with (${skipLocked})
where ${n.bare("Unhandled")}.last_seen_at < @before;`;

export const readUnhandled = (n: QueueNames): string => `${countFreely}
select top (@limit) u.topic, u.messages, u.last_seen_at
from ${unhandledTable(n)} u
order by u.last_seen_at desc, u.topic;`;
