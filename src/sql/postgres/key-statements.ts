import { type KeyStatements, status } from "../dialect.js";
import { statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { epochMs, ms, now } from "./expressions.js";
import { messages } from "./views.js";

const key = ":source, :message_id";
const isKey = "m.source = :source and m.message_id = :message_id";
const before = `${now} - ${ms(":retention_ms::float8")}`;
const isAbandoned = `s.status = ${status.leased} and s.visible_at < ${before} and (s.locked_until is null or s.locked_until < ${before})`;

export const keyStatements = (n: QueueNames): KeyStatements => ({
  tryBegin: statement(
    "try begin",
    `select r.status, r.mine, ${epochMs("r.locked_until")} as locked_until
from ${n.object("_try_begin")}(${key}, :owner::uuid, :lease_ms::float8, :headers, :now::timestamptz) r`,
  ),
  // The function is called for one item after the other, because it stands behind a subquery that is not merged.
  tryBeginMany: statement(
    "try begin many",
    `select i.message_id, r.status, r.mine, ${epochMs("r.locked_until")} as locked_until
from (
  select * from json_to_recordset(:items::json) as t (message_id text, owner uuid, lease_ms float8, headers text) offset 0
) i
cross join lateral ${n.object("_try_begin")}(:source, i.message_id, i.owner, i.lease_ms, i.headers, :now::timestamptz) r`,
  ),
  renewKey: statement(
    "renew key",
    `select ${epochMs("r")} as locked_until
from ${n.object("_renew_key")}(${key}, :owner::uuid, :lease_ms::float8, :now::timestamptz) r
where r is not null`,
  ),
  finishKey: statement(
    "finish key",
    `select r from ${n.object("_finish_key")}(${key}, :owner::uuid, :now::timestamptz) r where r`,
  ),
  releaseKey: statement(
    "release key",
    `select r from ${n.object("_release_key")}(${key}, :owner::uuid, :now::timestamptz) r where r`,
  ),
  inspectKey: statement(
    "inspect key",
    `select coalesce(s.status, ${status.done}) as status, coalesce(s.locked_until > ${now}, false) as live,
  coalesce(s.attempt, d.attempt) as attempt, ${epochMs("m.first_seen_at")} as first_seen_at,
  ${epochMs("m.last_seen_at")} as last_seen_at, ${epochMs("s.locked_until")} as locked_until, m.headers
${messages(n)}
where ${isKey}`,
  ),
  // The keys are locked before their states, as a try begin locks them. A key that another call takes meanwhile was seen
  // just now, and its state is tested once more. The condition on the message is a subselect: as a join it was planned as a
  // scan of all keys of the source wherever the tables had not been analysed yet.
  purgeKeys: statement(
    "purge keys",
    `with old as (
  select s.seq
  from ${n.state} s
  where ${isAbandoned}
    and (select m.source = :source and m.last_seen_at < ${before} from ${n.message} m where m.seq = s.seq)
  order by s.visible_at, s.seq
  limit (select :limit::int)
), locked as (
  select m.seq
  from ${n.message} m
  where m.seq = any (array(select seq from old)) and m.last_seen_at < ${before}
  for update skip locked
), gone as (
  delete from ${n.state} s
  where s.seq = any (array(select seq from locked)) and ${isAbandoned}
  returning s.seq
), gone_keys as (
  delete from ${n.message} m
  where m.seq = any (array(select seq from gone))
)
select count(*)::int as deleted from gone`,
  ),
});
