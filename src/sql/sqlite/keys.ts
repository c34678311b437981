import type { KeyStatements } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { steps } from "./connection.js";
import { keysTable, lease, limit, now, whole } from "./expressions.js";

export const createKeys = (n: QueueNames): readonly string[] => [
  `create table ${keysTable(n)} (
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
) strict`,
  // For the purge. A lease changes no column of it.
  `create index ${n.bare("KeysSeen")} on ${keysTable(n)} (source, first_seen_at)`,
];

const isKey = "source = :source and key = :key";
const isHeld = `lease_id = :lease_id and locked_until > ${now}`;
const isFree = "processed_at is null and coalesce(locked_until <= excluded.last_seen_at, true)";
const before = `${now} - ${whole(":retention_ms")}`;

export const keyStatements = (n: QueueNames): KeyStatements => ({
  tryBegin: steps(
    "try begin",
    () =>
      `insert into ${keysTable(n)} (source, key, lease_id, locked_until, attempt, owner, first_seen_at, last_seen_at)
values (:source, :key, :lease_id, ${now} + ${lease}, 1, :owner, ${now}, ${now})
on conflict (source, key) do update
set lease_id = iif(${isFree}, excluded.lease_id, lease_id),
  locked_until = iif(${isFree}, excluded.locked_until, locked_until),
  attempt = attempt + (${isFree}),
  owner = iif(${isFree}, excluded.owner, owner),
  last_seen_at = excluded.last_seen_at
returning processed_at is not null as processed, coalesce(lease_id = :lease_id, 0) as mine, locked_until`,
  ),
  renewKey: steps(
    "renew key",
    () =>
      `update ${keysTable(n)}
set locked_until = ${now} + ${lease}
where ${isKey} and ${isHeld}
returning locked_until`,
  ),
  finishKey: steps(
    "finish key",
    () =>
      `update ${keysTable(n)}
set lease_id = null, locked_until = null, processed_at = coalesce(processed_at, ${now}), processed_by = :lease_id
where ${isKey} and ((${isHeld}) or processed_by = :lease_id)
returning key`,
  ),
  releaseKey: steps(
    "release key",
    () =>
      `update ${keysTable(n)}
set lease_id = null, locked_until = ${now}
where ${isKey} and ${isHeld}
returning key`,
  ),
  markKey: steps(
    "mark key",
    () =>
      `insert into ${keysTable(n)} (source, key, attempt, first_seen_at, last_seen_at, processed_at)
values (:source, :key, 0, ${now}, ${now}, ${now})
on conflict (source, key) do update
set lease_id = null, locked_until = null, last_seen_at = excluded.last_seen_at,
  processed_at = coalesce(processed_at, excluded.processed_at)`,
  ),
  inspectKey: steps(
    "inspect key",
    () =>
      `select processed_at is not null as processed, coalesce(locked_until > ${now}, 0) as held, attempt, first_seen_at,
  last_seen_at, locked_until, owner
from ${keysTable(n)}
where ${isKey}`,
  ),
  purgeKeys: steps("purge keys", () => [
    `delete from ${keysTable(n)}
where rowid in (
  select rowid
  from ${keysTable(n)}
  where source = :source and first_seen_at < ${before} and last_seen_at < ${before}
    and coalesce(processed_at, locked_until, last_seen_at) < ${before}
  limit ${limit}
)`,
    "select changes() as deleted",
  ]),
});
