import { status } from "../dialect.js";
import { keyColumns, type QueueNames } from "../names.js";
import { addMs, binary } from "./expressions.js";
import { seekEach } from "./procedures/procedure.js";
import { columns } from "./procedures/rows.js";
import type { Read } from "./read-statement.js";

/** The time to which ages refer: that of an operation's record, else now. */
const at = "coalesce(@at, @now)";

/** Dead messages `s` that match. A message's own row is read only where a condition needs it. */
const dead = (n: QueueNames) => `s.status = ${status.dead}
  and s.died_at <= ${at}
  and (@error_group is null or coalesce(s.error_group, '') = @error_group)
  and (@error is null or charindex(@error ${binary}, s.last_error ${binary}) > 0)
  and (@older_than_ms is null or s.died_at <= ${addMs(n, at, "-@older_than_ms")})
  and (@newer_than_ms is null or s.died_at >= ${addMs(n, at, "-@newer_than_ms")})
  and ((@topic is null and @source is null) or exists (
    select 1 from ${n.message} m with (forceseek)
    where m.seq = s.seq
      and (@topic is null or m.topic = @topic)
      and (@source is null or ${n.kind === "inbox" ? "m.source = @source" : "1 = 0"})
  ))`;

const fromDead = (n: QueueNames) => `from ${n.state} s with (index(${n.bare("_Dead")}))`;

// Recompiled each time, so that the plan has no more than the conditions that are given.
const deadGroups = (n: QueueNames) => `declare @groups table (
  error_group varchar(16) ${binary} not null primary key, [count] bigint not null,
  first_at datetime2(3) not null, last_at datetime2(3) not null, seq bigint not null
);

insert into @groups (error_group, [count], first_at, last_at, seq)
select top (@limit) coalesce(s.error_group, ''), count_big(*), min(s.died_at), max(s.died_at), max(s.seq)
${fromDead(n)}
where ${dead(n)}
group by coalesce(s.error_group, '')
order by count_big(*) desc, coalesce(s.error_group, '')
option (recompile);

select g.error_group, g.[count] as [count], g.first_at, g.last_at, s.last_error, ${columns("m", keyColumns(n))}
from @groups g
inner join ${n.state} s with (forceseek) on s.seq = g.seq
inner join ${n.message} m with (forceseek) on m.seq = g.seq
order by g.[count] desc, g.error_group ${seekEach};`;

const countDead = (n: QueueNames) => `select count_big(*) as [count]
${fromDead(n)}
where ${dead(n)}
option (recompile);`;

const nextDead = (n: QueueNames) => `select top (@limit) s.seq
${fromDead(n)}
where s.seq > @after_seq and ${dead(n)}
order by s.seq
option (recompile);`;

const filter = [
  "now",
  "at",
  "topic",
  "source",
  "error",
  "error_group",
  "older_than_ms",
  "newer_than_ms",
] as const;

export const deadReads = (n: QueueNames) =>
  ({
    deadGroups: { name: "dead groups", parameters: [...filter, "limit"], body: deadGroups(n) },
    countDead: { name: "count dead", parameters: filter, body: countDead(n) },
    nextDead: { name: "next dead", parameters: [...filter, "after_seq", "limit"], body: nextDead(n) },
  }) satisfies Record<string, Read>;
