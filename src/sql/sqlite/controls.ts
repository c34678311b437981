import { status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { controlsTable, now, stepSeqs } from "./expressions.js";

/** A row is a control: a pause, a limit, or both. They are conditions of the claim: see docs/decisions/0020. */
export const createControls = (n: QueueNames): string => `create table ${controlsTable(n)} (
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
) strict`;

/** A condition: the control `c` is one of the message `m`. */
export const appliesTo = (n: QueueNames): string =>
  `case c.scope when 'topic' then c.name = m.topic when 'source' then ${n.kind === "inbox" ? "c.name = m.source" : "false"} else true end`;

/** A condition: the whole queue is paused. */
export const isPaused = (n: QueueNames): string =>
  `exists (select 1 from ${controlsTable(n)} c where c.scope = 'queue' and c.paused)`;

/** A condition: a pause holds the message `m`. */
export const holdsMessage = (n: QueueNames): string =>
  `exists (select 1 from ${controlsTable(n)} c where c.paused and ${appliesTo(n)})`;

/** A condition: a control that matches holds the message of the state `s`. Without such controls no message is read. */
const holdsStateIf = (n: QueueNames, condition: string): string =>
  `(exists (select 1 from ${controlsTable(n)} c where ${condition}) and exists (
    select 1 from ${n.message} m join ${controlsTable(n)} c on ${condition} and ${appliesTo(n)} where m.seq = s.seq
  ))`;

/** A condition: a pause holds the message of the state `s`. */
export const holdsState = (n: QueueNames): string => holdsStateIf(n, "c.paused");

const isEmpty = "c.per_second is not null and c.tokens < 1";

/** A condition: the message of the state `s` waits for a limit's next token. */
export const waitsForToken = (n: QueueNames): string => holdsStateIf(n, isEmpty);

/** A step: at most the tokens of one second. */
export const refillTokens = (n: QueueNames): string => `update ${controlsTable(n)}
set tokens = min(max(1.0, per_second), tokens + per_second * max(0, ${now} - refilled_at) / 1000.0), refilled_at = ${now}
where per_second is not null`;

/** The row numbers in `due` that are more than a limit has tokens for, in the order of the claim. What `dies` needs none. */
export const overLimits = (n: QueueNames): string => `select seq from (
    select due.seq, row_number() over (partition by c.scope, c.name order by due.visible_at, due.seq) > c.tokens as is_over
    from ${controlsTable(n)} c
    cross join due
    cross join ${n.message} m on m.seq = due.seq
    where c.per_second is not null and due.dies is not true and ${appliesTo(n)}
  )
  where is_over`;

/** A step: a token of each limit for each message that was leased. */
export const takeTokens = (n: QueueNames): string => `update ${controlsTable(n)} as c
set tokens = c.tokens - (
  select count(*)
  from ${n.state} s
  join ${n.message} m on m.seq = s.seq
  where s.seq in ${stepSeqs} and s.status = ${status.ready} and ${appliesTo(n)}
)
where c.per_second is not null`;

/** Until a limit has its next token, of those that a due message waits for; null when there is none. */
export const tokenWaitMs = (n: QueueNames, isDue: string): string => `(
    select min((1 - c.tokens) / c.per_second * 1000)
    from ${controlsTable(n)} c
    where ${isEmpty} and exists (
      select 1 from ${n.state} s join ${n.message} m on m.seq = s.seq where ${isDue} and ${appliesTo(n)} and not ${holdsState(n)}
    )
  )`;
