import { crashesBeforeAlone } from "../../queue/leases.js";
import type { QueueNames } from "../names.js";
import { controlsTable, createFunction, isDue } from "./expressions.js";

/** A row is a control: a pause, a limit, or both. What is neither is deleted. */
export const controlRows = (n: QueueNames): string => `create table ${controlsTable(n)} (
  scope varchar(10) collate "C" not null,
  -- the topic or source; empty for the whole queue
  name varchar(255) collate "C" not null,
  paused boolean not null,
  per_second float8,
  -- how many messages the limit lets pass, as of refilled_at
  tokens float8 not null default 1,
  refilled_at timestamptz not null,
  who varchar(255) not null,
  changed_at timestamptz not null,
  primary key (scope, name)
)`;

/** A condition: the control `c` is for the message `m`. */
export const appliesTo = (n: QueueNames, c = "c"): string =>
  `case ${c}.scope when 'topic' then ${c}.name = m.topic when 'source' then ${n.kind === "inbox" ? `${c}.name = m.source` : "false"} else true end`;

/** A condition: a pause holds the message `m`. */
export const holdsMessage = (n: QueueNames): string =>
  `exists (select from ${controlsTable(n)} p where p.paused and ${appliesTo(n, "p")})`;

/** A condition: a pause holds the message of the state `s`. Without pauses no message is looked at. */
export const isPaused = (n: QueueNames): string =>
  `((select exists (select from ${controlsTable(n)} c where c.paused)) and exists (
    select from ${n.message} m where m.seq = s.seq and ${holdsMessage(n)}
  ))`;

/**
 * The due messages that a claim may lease while the queue has controls, locked. It takes their tokens. A queue without limits
 * is only read. Where there are limits, claims come one after another: each locks them first, so tokens are exact.
 *
 * Of each limit at most as many messages as it has tokens, in the order of the claim. What the claim makes dead needs no token.
 */
export const pickControlled = (n: QueueNames): string => {
  const controls = controlsTable(n);
  const isInbox = n.kind === "inbox";
  const dies =
    "(coalesce(s.expires_at <= p_now, false) or (s.locked_until is not null and s.attempt + 1 >= p_max_attempts))";
  return createFunction(
    n.object("_pick_controlled"),
    "p_limit integer, p_max_attempts integer, p_now timestamptz, out seqs bigint[], out verdict text, out wait_ms float8",
    "",
    `declare
  v_topics text[];
  v_sources text[];
  v_is_alone boolean;
begin
  if exists (select from ${controls} c where c.scope = 'queue' and c.paused) then
    verdict := 'paused';
    return;
  end if;

  perform from ${controls} c where c.per_second is not null order by c.scope, c.name for update;
  -- at most the tokens of one second
  update ${controls} c
  set tokens = least(greatest(1, c.per_second), c.tokens + c.per_second * greatest(0, extract(epoch from p_now - c.refilled_at))),
    refilled_at = greatest(c.refilled_at, p_now)
  where c.per_second is not null;

  if not exists (select from ${controls} c where c.scope = 'queue' and c.tokens < 1) then
    select array_agg(c.name) filter (where c.scope = 'topic'), array_agg(c.name) filter (where c.scope = 'source')
    into v_topics, v_sources
    from ${controls} c
    where c.paused or (c.per_second is not null and c.tokens < 1);

    with due as (
      select s.seq, s.visible_at, m.topic${isInbox ? ", m.source" : ""}, ${dies} as dies,
        s.crashes + (s.locked_until is not null)::int >= ${crashesBeforeAlone} as alone
      from ${n.state} s
      join ${n.message} m on m.seq = s.seq
      where ${isDue("s", "p_now")}
        and m.topic <> all (coalesce(v_topics, '{}'))${isInbox ? "\n        and m.source <> all (coalesce(v_sources, '{}'))" : ""}
      order by s.visible_at, s.seq
      limit p_limit
      for update of s skip locked
    ), ranked as (
      select m.seq, c.tokens, row_number() over (partition by c.scope, c.name order by m.visible_at, m.seq) as rank
      from due m
      join ${controls} c on c.per_second is not null and ${appliesTo(n)}
      where not m.dies
    )
    select array_agg(d.seq order by d.alone desc, d.visible_at, d.seq), bool_or(d.alone) into seqs, v_is_alone
    from due d
    where not exists (select from ranked r where r.seq = d.seq and r.rank > r.tokens);
    if v_is_alone then seqs := seqs[1:1]; end if;
  end if;

  if seqs is not null then
    update ${controls} c
    set tokens = c.tokens - (
        select count(*) from ${n.state} s join ${n.message} m on m.seq = s.seq
        where s.seq = any (seqs) and ${appliesTo(n)} and not ${dies}
      )
    where c.per_second is not null;
    return;
  end if;
  select 'limited', min((1 - c.tokens) / c.per_second) * 1000 into verdict, wait_ms
  from ${controls} c
  where c.per_second is not null and c.tokens < 1 and exists (
      select from ${n.state} s
      join ${n.message} m on m.seq = s.seq
      where ${isDue("s", "p_now")} and ${appliesTo(n)} and not ${holdsMessage(n)}
    )
  having count(*) > 0;
end`,
    "volatile\nset enable_seqscan = off", // plans may be cached while the tables are nearly empty
  );
};
