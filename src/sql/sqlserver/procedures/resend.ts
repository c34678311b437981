import { status } from "../../dialect.js";
import type { QueueNames } from "../../names.js";
import { binary } from "../expressions.js";
import { isWhole, pickFrom, readPast, seekEach, skipLocked, stateTable } from "./procedure.js";

/** Walks the primary key, as a purge does: an index of Done rows would be paid for by every ack. */
export const listDone = (n: QueueNames) => `select top (@limit) s.seq, m.id, m.topic, s.processed_at
from ${n.state} s with (${readPast})
inner join ${n.message} m with (forceseek) on m.seq = s.seq
where s.seq > @after_seq and s.status = ${status.done}
order by s.seq ${seekEach};`;

/** Each chosen row is tested again where it is locked: a claim may have taken it by then. */
export function makeDue(n: QueueNames): string {
  const s = stateTable(n);
  const waits = (t: string) =>
    `${t}.status = ${status.ready} and ${t}.visible_at > @now and ${t}.last_error ${binary} = @error ${binary}`;
  return `declare @due table (seq bigint not null primary key);

update ${n.state}
set visible_at = @now
output inserted.seq into @due (seq)
from (
  select top (@limit) r.seq
  from ${pickFrom(n, "_Ready")}
  where ${waits("r")} and ${isWhole("r")}
  order by r.visible_at, r.seq
) p, ${n.state} with (forceseek, ${skipLocked})
where ${s}.seq = p.seq and ${waits(s)} ${seekEach};

select d.seq from @due d;`;
}
