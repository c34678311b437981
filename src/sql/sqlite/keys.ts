import { type KeyStatements, status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { isFreeKey, lease, limit, messages, nextSeq, now, ownNow, stepSeqs, whole } from "./expressions.js";
import { steps } from "./steps.js";

const before = `${now} - ${whole(":retention_ms")}`;

/** The state of the key. */
const isOfKey = (n: QueueNames) =>
  `seq = (select seq from ${n.message} where source = :source and message_id = :message_id)`;

/** A key that `:owner` holds now. */
const isHeld = `status = ${status.leased} and owner = :owner and locked_until > ${ownNow}`;

export const keyStatements = (n: QueueNames): KeyStatements => ({
  // An unknown key is inserted as Seen, by the trigger on messages. Only the first step returns a row, so the others find
  // the number in :seqs.
  tryBegin: steps(
    "try begin",
    `insert into ${n.message} (seq, source, message_id, topic, payload, first_seen_at, last_seen_at)
values (${nextSeq(n)}, :source, :message_id, '', '', ${now}, ${now})
on conflict (source, message_id) do update
set last_seen_at = excluded.last_seen_at
returning seq`,
    `update ${n.state}
set status = ${status.leased}, owner = :owner, locked_until = ${now} + ${lease}, visible_at = ${now}, attempt = attempt + 1
where seq in ${stepSeqs} and (status = ${status.seen} or ${isFreeKey(now)})`,
    `update ${n.message}
set headers = :headers
where seq in (select seq from ${n.state} where seq in ${stepSeqs} and status = ${status.leased} and owner = :owner)`,
    `select coalesce(s.status, ${status.ready}) as status, coalesce(s.status = ${status.leased} and s.owner = :owner, 0) as mine,
  s.locked_until
from json_each(:seqs)
left join ${n.state} s on s.seq = value`,
  ),
  renewKey: steps(
    "renew key",
    `update ${n.state}
set locked_until = ${ownNow} + ${lease}
where ${isOfKey(n)} and ${isHeld}
returning locked_until`,
  ),
  // The same call again writes the same values again.
  finishKey: steps(
    "finish key",
    `update ${n.state}
set status = ${status.done}, owner = null, locked_until = null, processed_at = coalesce(processed_at, ${ownNow}), processed_by = :owner
where ${isOfKey(n)} and ((${isHeld}) or (status = ${status.done} and processed_by = :owner))
returning seq`,
  ),
  releaseKey: steps(
    "release key",
    `update ${n.state}
set owner = null, locked_until = null, visible_at = ${ownNow}
where ${isOfKey(n)} and ${isHeld}
returning seq`,
  ),
  inspectKey: steps(
    "inspect key",
    `select coalesce(s.status, ${status.ready}) as status, coalesce(s.locked_until > ${ownNow}, 0) as live,
  coalesce(s.attempt, 0) as attempt, m.first_seen_at, m.last_seen_at, s.locked_until, m.headers
${messages(n)}
where m.source = :source and m.message_id = :message_id`,
  ),
  // A trigger deletes the state rows.
  purgeKeys: steps(
    "purge keys",
    `delete from ${n.message}
where seq in (
  select s.seq
  from ${n.state} s
  cross join ${n.message} m on m.seq = s.seq
  where s.status = ${status.leased} and s.visible_at < ${before} and (s.locked_until is null or s.locked_until < ${before})
    and m.source = :source and m.last_seen_at < ${before}
  order by s.visible_at
  limit ${limit}
)`,
    "select changes() as deleted",
  ),
});
