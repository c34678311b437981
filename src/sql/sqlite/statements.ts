import type {
  InboxStatements,
  OutboxStatements,
  QueueStatementOptions,
  QueueStatements,
} from "../dialect.js";
import { status } from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import { lazily, type Makers } from "../lazily.js";
import { literal } from "../literal.js";
import { bornAt, keyColumns, lastSeenAt, type QueueNames } from "../names.js";
import { reasons } from "../reasons.js";
import { field, firstSeq, nextSeq, now, nowWithin, oldStatus } from "./expressions.js";
import { cursorTable, leaseTable, lineTable } from "./names.js";
import { isBehind, isFresh, isUntouched, packed, stateOf, unpack, visibleAt, withState } from "./schema.js";

/** Where a statement has many rows: as a subselect it is computed once for all. */
const nowOnce = `(select ${nowWithin})`;
const whole = (expression: string) => `cast(${expression} as integer)`;

/** The wait after the attempt that `attempts` counts: min(base · factor^n, max) + random(0, jitter). */
const backoff = (attempts: string, random = "abs(random() % 1000000) / 1e6") =>
  whole(`round(min(:max_ms, :base_ms * power(:factor, min(${attempts}, 64))) + ${random} * :jitter_ms)`);
const lease = whole(":lease_ms");

/** Row numbers sent as a JSON array. */
const seqs = "(select value from json_each(:items))";

/** A row that `:owner` holds. */
const ownedBy = (s: string) => `${s}.owner = :owner`;

const messageColumns = (n: QueueNames) =>
  n.kind === "inbox"
    ? "m.source, m.message_id, m.hash, m.first_seen_at, m.last_seen_at, m.deliveries"
    : "m.id, m.message_id, m.created_at";

/** Key columns, and the outbox's own message id. */
const keyOf = (n: QueueNames) => (n.kind === "inbox" ? "m.source, m.message_id" : "m.id, m.message_id");

const row = (
  n: QueueNames,
  seq = "m.seq",
) => `${seq}, m.topic, m.payload, m.partition_key, m.headers, m.correlation_id, m.due_at,
  ${stateOf.attempt} as attempt, s.expires_at, ${visibleAt(n)} as next_attempt_at, s.locked_until, s.owner, s.last_error,
  s.processed_at, s.processed_by, ${stateOf.crashes} as crashes, ${stateOf.status} as status, ${messageColumns(n)}`;

/** What a list filters by in the message. */
const wanted = (n: QueueNames) => `(:topic is null or m.topic = :topic)
  and (:source is null or ${n.kind === "inbox" ? "m.source = :source" : "false"})
  and (:older_than_ms is null or m.${bornAt(n)} <= ${now} - :older_than_ms)
  and (:newer_than_ms is null or m.${bornAt(n)} >= ${now} - :newer_than_ms)`;

/** The rows that the step before returned. */
const stepBefore = (n: QueueNames) => `from json_each(:rows) r
join ${n.state} s on s.seq = json_extract(r.value, '$.seq')
join ${n.message} m on m.seq = s.seq`;

/** What a claimed message rarely has, in one column: see `rareColumns` in queue-shape.ts. */
const rest = (n: QueueNames, ofState: Readonly<Record<string, string>> = {}) => {
  const ofMessage = {
    headers: "m.headers",
    correlation_id: "m.correlation_id",
    partition_key: "m.partition_key",
    due_at: "m.due_at",
    ...(n.kind === "inbox" && {
      hash: "case when m.hash is not null then hex(m.hash) end",
      last_seen_at: "m.last_seen_at",
      deliveries: "m.deliveries",
    }),
  };
  const pairs = Object.entries({ ...ofMessage, ...ofState }).map(([name, value]) => `'${name}', ${value}`);
  return `json_object(${pairs.join(", ")})`;
};

/** A fresh message that came once, with nothing but its payload. */
const isPlain = (n: QueueNames) =>
  `m.headers is null and m.correlation_id is null${
    n.kind === "inbox" ? " and m.deliveries = 1 and m.last_seen_at = m.first_seen_at and m.hash is null" : ""
  }`;

/**
 * The next :limit messages in the order (visible_at, seq): ready ones and fresh ones. A fresh one stands at its
 * birth, but never before those that came before it, even when the clock went back: so what is taken of them
 * is always what comes first behind the cursor. It is due whatever the clock says.
 */
const nextInLine = (n: QueueNames) => `select seq from (
  select seq, visible_at from (
    select seq, visible_at from ${n.state}
    where status = ${status.ready} and visible_at <= ${now}
    order by visible_at, seq
    limit :limit
  )
  union all
  select seq, min(max(born) over (order by seq rows unbounded preceding), ${now}) from (
    select m.seq, m.${bornAt(n)} as born from ${n.message} m
    where m.seq > (select seq from ${cursorTable(n)}) and ${isFresh(n, "m.seq")}
    order by m.seq
    limit :limit
  )
)
order by visible_at, seq
limit :limit`;

/** The columns of a claim's shortcut: those that both have, those of its key, and its birth. By index: destructuring an array walks an iterator. */
const freshInboxRow: NonNullable<SqlStatement["shortcutRow"]> = (cells, constants) => ({
  seq: cells[0],
  topic: cells[1],
  payload: cells[2],
  source: cells[3],
  message_id: cells[4],
  first_seen_at: cells[5],
  rest: cells[6],
  locked_until: constants.locked_until,
  next_attempt_at: constants.next_attempt_at,
});
const freshOutboxRow: NonNullable<SqlStatement["shortcutRow"]> = (cells, constants) => ({
  seq: cells[0],
  topic: cells[1],
  payload: cells[2],
  id: cells[3],
  message_id: cells[4],
  created_at: cells[5],
  rest: cells[6],
  locked_until: constants.locked_until,
  next_attempt_at: constants.next_attempt_at,
});

function queueStatements(n: QueueNames, { blockOnDead }: QueueStatementOptions): Makers<QueueStatements> {
  // A held row whose time has come was lost by its worker: that counts as an attempt, perhaps the last.
  const lost = "s.locked_until is not null";
  const dies = `(s.expires_at <= ${now} or (${lost} and s.attempt + 1 >= :max_attempts))`;
  const crashed = `select seq from ${n.state} where status = ${status.held} and visible_at <= ${now} order by visible_at, seq limit 1`;
  const claimed = {
    attempt: `${stateOf.attempt} + (${lost})`,
    crashes: `${stateOf.crashes} + (${lost})`,
    lockedUntil: `case when ${dies} then null else ${now} + ${lease} end`,
    visibleAt: `${now} + ${lease} + ${backoff(`${stateOf.attempt} + (${lost}) + 1`, ":random")}`,
    lastError: `case
    when s.expires_at <= ${now} then ${literal(reasons.expired)}
    when ${lost} then ${literal(reasons.leaseExpired)}
    else s.last_error
  end`,
  };
  const cursor = cursorTable(n);
  const ack = `update ${n.state} as s
set status = ${status.done}, owner = null, locked_until = null, processed_at = ${now}, processed_by = :processed_by
where s.seq in ${seqs} and ${ownedBy("s")}`;
  const line = lineTable(n);
  const leave = `delete from ${line} where seq in (select value from json_each(:seqs))`;
  const isDead = `exists (select 1 from ${n.state} where seq = ${line}.seq and status = ${status.dead})`;
  const buryDead = blockOnDead ? [] : [`${leave} and ${isDead}`];
  const ready = `select 1 from ${n.state} where status = ${status.ready} and visible_at <= ${now}`;
  const leases = leaseTable(n);
  const unpackOwn = unpack(n, "owner = :owner");
  return {
    // Read first, then written by row number: `update … returning` keeps its rows in a table of its own, and the
    // messages would have to be looked up after it anyway. Both steps compute the same, of one :now and :random.
    claim: () => ({
      constants: `select now, now + ${lease} as locked_until, now + ${lease} + ${backoff("1", ":random")} as next_attempt_at
from (select ${nowWithin} as now)`,
      // Fresh ones alone, when nothing else is due: a third of the time of putting the two in order, and one row to
      // write instead of one for each. They are all there are up to the last of them. What must not be there stands with
      // the cursor: as a condition of its own it would be asked of every message that waits.
      shortcut: [
        `select m.seq, m.topic, m.payload, ${keyOf(n)}, m.${bornAt(n)},
  case when not (${isPlain(n)}) then ${rest(n)} end as rest
from ${n.message} m
where m.seq > (
    select seq from ${cursor}
    where not exists (${ready})
      and not exists (${crashed})
      and not exists (select 1 from ${leases} where visible_at <= ${now})
  )
  and (m.seq > (select max(seq) from ${n.state}) or ${isFresh(n, "m.seq")})
order by m.seq
limit :limit`,
        `update ${cursor} set seq = :last_seq`,
        `insert into ${leases} (owner, locked_until, visible_at, seqs)
values (:owner, :locked_until, :next_attempt_at, :seqs)`,
      ],
      shortcutRow: n.kind === "inbox" ? freshInboxRow : freshOutboxRow,
      ...statement(
        "claim",
        ...unpack(n, `visible_at <= ${now}`),
        `select c.seq, m.topic, m.payload, ${keyOf(n)}, m.${bornAt(n)},
  ${claimed.visibleAt} as next_attempt_at, ${claimed.lockedUntil} as locked_until,
  ${rest(n, { attempt: claimed.attempt, crashes: claimed.crashes, last_error: claimed.lastError, expires_at: "s.expires_at" })} as rest,
  case when s.expires_at <= ${now} then 'expired' when ${dies} then 'exhausted' end as verdict
from (
  select seq from (${crashed})
  union all
  select seq from (${nextInLine(n)}) where not exists (${crashed})
) c
cross join ${n.message} m on m.seq = c.seq
left join ${n.state} s on s.seq = c.seq`,
        // To before the first fresh one that stays. The last that was taken, when it is fresh, is a good place to look
        // from; when nothing was taken, there is none.
        `update ${cursor}
set seq = coalesce(
  (
    select m.seq - 1 from ${n.message} m
    where m.seq > (case when ${isFresh(n, ":last_seq")} then :last_seq else ${cursor}.seq end)
      and ${isFresh(n, "m.seq")}
    order by m.seq
    limit 1
  ),
  (select max(seq) from ${n.message})
)
where seq < (select max(seq) from ${n.message})`,
        `insert into ${n.state} as s (seq, status, visible_at, locked_until, owner)
select value, ${status.held}, :next_attempt_at, :locked_until, :owner
from json_each(:seqs)
where true
on conflict (seq) do update
set status = case when ${dies} then ${status.dead} else ${status.held} end,
  attempt = ${claimed.attempt},
  crashes = ${claimed.crashes},
  owner = case when ${dies} then null else :owner end,
  locked_until = ${claimed.lockedUntil},
  visible_at = ${claimed.visibleAt},
  last_error = ${claimed.lastError}`,
        ...(blockOnDead
          ? []
          : [`delete from ${line} where seq in (select value from json_each(:dead_seqs))`]),
      ),
    }),
    ack: () => ({
      ...statement("ack", ...unpackOwn, `${ack}\nreturning seq`),
      whole: {
        shortcut: [
          `delete from ${leases} where owner = :owner and seqs = :items returning id`,
          `insert into ${n.state} (seq, status, visible_at, processed_at, processed_by)
select value, ${status.done}, ${nowOnce}, ${nowOnce}, :processed_by
from json_each(:items)`,
          "select changes() as changed",
        ],
        ...statement("ack", ack, "select changes() as changed"),
      },
      keyed: statement("ack", ...unpackOwn, `${ack}\nreturning seq`, leave),
    }),
    abandon: () =>
      withKeyed(
        unpackOwn,
        buryDead,
        "abandon",
        `update ${n.state} as s
set status = case when i.attempts is null and s.attempt + 1 >= :max_attempts then ${status.dead} else ${status.ready} end,
  attempt = s.attempt + coalesce(i.attempts, 1),
  crashes = 0,
  owner = null,
  locked_until = null,
  visible_at = ${now} + coalesce(${whole("round(i.delay_ms)")}, ${backoff("s.attempt + 1")}),
  last_error = coalesce(i.error, s.last_error)
from (
  select json_extract(value, '$.seq') as seq, json_extract(value, '$.delay_ms') as delay_ms, json_extract(value, '$.error') as error,
    json_extract(value, '$.attempts') as attempts
  from json_each(:items)
) i
where s.seq = i.seq and ${ownedBy("s")}
returning seq, status = ${status.dead} as dead`,
      ),
    fail: () =>
      withKeyed(
        unpackOwn,
        buryDead,
        "fail",
        `update ${n.state} as s
set status = ${status.dead}, attempt = s.attempt + 1, owner = null, locked_until = null, last_error = :error
where s.seq in ${seqs} and ${ownedBy("s")}
returning seq`,
      ),
    // One that came back from a crash goes on waiting to be claimed alone.
    release: () =>
      statement(
        "release",
        ...unpackOwn,
        `update ${n.state} as s
set status = case when s.crashes > 0 then ${status.held} else ${status.ready} end,
  owner = null, locked_until = null, visible_at = ${now}
where s.seq in ${seqs} and ${ownedBy("s")}
returning seq`,
      ),
    renew: () =>
      statement(
        "renew",
        ...unpackOwn,
        `update ${n.state} as s
set locked_until = ${now} + ${lease}, visible_at = ${now} + ${lease} + ${backoff("s.attempt + 1")}
where s.seq in ${seqs} and ${ownedBy("s")}
returning seq`,
      ),
    // visible_at already holds the end of the lease and the back-off after it: whoever finds it first,
    // reaper or claim, comes to the same time.
    reap: () =>
      statement(
        "reap",
        ...unpack(n, `locked_until < ${now}`),
        `update ${n.state} as s
set status = case when ${dies} then ${status.dead} else ${status.held} end,
  attempt = s.attempt + (${lost}),
  crashes = s.crashes + (${lost}),
  owner = null,
  locked_until = null,
  last_error = case when s.expires_at <= ${now} then ${literal(reasons.expired)} else ${literal(reasons.leaseExpired)} end
where s.seq in (
  select seq from (
    select seq from ${n.state} where status = ${status.held} and locked_until < ${now} limit :limit
  )
  union all
  select seq from (
    select seq from ${n.state}
    where expires_at <= ${now} and expires_at is not null
      and status in (${status.ready}, ${status.held}, ${status.blocked}) and locked_until is null
    limit :limit
  )
  limit :limit
)
returning seq`,
        ...buryDead,
        `select s.seq, ${keyColumns(n)
          .map((c) => `m.${c}`)
          .join(", ")},
  case when s.status <> ${status.dead} then 'reaped' when s.expires_at <= ${now} then 'expired' else 'exhausted' end as verdict
${stepBefore(n)}`,
      ),
    // Walks the primary key in windows instead of keeping an index of Done rows, which every ack would
    // pay for. The trigger takes the state rows along.
    purge: () =>
      statement(
        "purge",
        `select w.last_seq,
  w.rows = :limit and exists (
    select 1 from ${n.message} m where m.seq = w.last_seq and m.${bornAt(n)} < ${now} - ${whole(":retention_ms")}
  ) as more
from (
  select max(seq) as last_seq, count(*) as rows
  from (select seq from ${n.state} where seq > :after_seq order by seq limit :limit)
) w`,
        `delete from ${n.message}
where seq in (
  select m.seq
  from json_each(:rows) r
  join ${n.state} s on s.seq > :after_seq and s.seq <= json_extract(r.value, '$.last_seq')
  join ${n.message} m on m.seq = s.seq
  where s.status = ${status.done}
    and s.processed_at < ${now} - ${whole(":retention_ms")}
    and m.${lastSeenAt(n)} < ${now} - ${whole(":retention_ms")}
)`,
        `select changes() as deleted, json_extract(r.value, '$.last_seq') as last_seq, json_extract(r.value, '$.more') as more
from json_each(:rows) r`,
      ),
    resolve: () =>
      statement(
        "resolve",
        n.kind === "inbox"
          ? `select m.seq, m.partition_key, m.source, m.message_id
from json_each(:items) i
join ${n.message} m on m.source = json_extract(i.value, '$.source') and m.message_id = json_extract(i.value, '$.message_id')`
          : `select m.seq, m.partition_key, m.id
from json_each(:items) i
join ${n.message} m on m.id = json_extract(i.value, '$.id')`,
      ),
    get: () =>
      statement(
        "get",
        withState(
          n,
          `select ${row(n)}`,
          n.kind === "inbox" ? "m.source = :source and m.message_id = :message_id" : "m.id = :id",
        ),
      ),
    // Walks by row number that SQLite merges: it stops at the limit, and a page of dead letters does not
    // read the messages that wait. In order of the state's own number: by the message's it would sort all of them.
    list: () =>
      statement(
        "list",
        `${[n.state, packed(n)]
          .map(
            (states) => `select ${row(n, "s.seq")}
from ${states} s
cross join ${n.message} m on m.seq = s.seq
where s.seq > :after_seq
  and (:status is null or s.status in (:status, :status_2, :status_3))
  and (:leased is null or (s.locked_until is not null) = :leased)
  and (:error is null or instr(s.last_error, :error) > 0)
  and ${wanted(n)}
union all`,
          )
          .join("\n")}
select ${row(n)}
from ${n.message} m
left join ${n.state} s on s.seq = m.seq
where m.seq > max(:after_seq, (select seq from ${cursor}))
  and s.seq is null
  and (:status is null or ${status.ready} in (:status, :status_2, :status_3))
  and (:leased is null or not :leased)
  and :error is null
  and ${wanted(n)}
order by 1
limit :limit`,
      ),
    // Every state has its message, so the fresh ones are counted without a look at any of them.
    stats: () =>
      statement(
        "stats",
        `with known as materialized (
  select s.status, s.locked_until is not null as leased, count(*) as count,
    count(*) filter (where s.visible_at <= ${now} and s.status in (${status.ready}, ${status.held})) as due,
    ${now} - min(s.visible_at) filter (where s.visible_at <= ${now} and s.status in (${status.ready}, ${status.held})) as oldest_due_ms
  from ${n.state} s
  group by s.status, s.locked_until is not null
  union all
  select s.status, 1, count(*), count(*) filter (where s.visible_at <= ${now}),
    ${now} - min(s.visible_at) filter (where s.visible_at <= ${now})
  from ${packed(n)} s
  having count(*) > 0
),
fresh (count) as materialized (
  select (select count(*) from ${n.message}) - (select coalesce(sum(count), 0) from known)
)
select status, leased, count, due, oldest_due_ms from known
union all
select ${status.ready}, 0, count, count, (
  select max(0, ${now} - m.${bornAt(n)}) from ${n.message} m
  where m.seq > (select seq from ${cursor}) and ${isFresh(n, "m.seq")}
  order by m.seq
  limit 1
)
from fresh
where count > 0`,
      ),
    oldestDue: () =>
      statement(
        "oldest_due",
        `select max(age) as oldest_due_ms
from (
  select ${now} - min(visible_at) as age from ${n.state} where status = ${status.ready} and visible_at <= ${now}
  union all
  select ${now} - min(visible_at) from ${n.state} where status = ${status.held} and visible_at <= ${now}
  union all
  select ${now} - min(visible_at) from ${leases} where visible_at <= ${now}
  union all
  select (
    select max(0, ${now} - m.${bornAt(n)}) from ${n.message} m
    where m.seq > (select seq from ${cursor}) and ${isFresh(n, "m.seq")}
    order by m.seq
    limit 1
  )
)`,
      ),
    replay: () =>
      statement(
        "replay",
        `update ${n.state} as s
set status = ${status.ready}, attempt = 0, crashes = 0, visible_at = ${now}, expires_at = null, processed_at = null
where s.seq in ${seqs} and s.status = ${status.dead}
returning seq`,
        // With a key it stands where it stood, when it has kept its place in line, or at the end.
        `insert into ${line} (partition_key, seq)
select m.partition_key, m.seq
from json_each(:seqs)
join ${n.message} m on m.seq = value
where m.partition_key is not null
order by m.seq
on conflict (seq) do nothing`,
        `update ${n.state}
set status = ${status.blocked}
where seq in (select value from json_each(:seqs)) and ${isBehind(n, `${n.state}.seq`)}`,
      ),
  };
}

/** A statement, and the steps that follow it when messages may have a partition key. */
const withKeyed = (
  before: readonly string[],
  after: readonly string[],
  name: string,
  text: string,
): SqlStatement => ({
  ...statement(name, ...before, text),
  keyed: statement(name, ...before, text, ...after),
});

const scalarOutbox = `:id, :message_id, :topic, :payload, :correlation_id, :headers, :due_at, :expires_at`;
const jsonOutbox = `${field("id")}, ${field("message_id")}, ${field("topic")}, ${field("payload")},
  ${field("correlation_id")}, ${field("headers")}, ${field("due_at")}, ${field("expires_at")}`;

export function inboxStatements(n: QueueNames, options: QueueStatementOptions): InboxStatements {
  const m = n.message;
  const statusBefore = oldStatus(n);
  return lazily({
    ...queueStatements(n, options),
    alreadyProcessed: () =>
      statement(
        "already processed",
        `insert into ${m} (seq, source, message_id, topic, payload, hash, first_seen_at, last_seen_at)
values (${nextSeq(n)}, :source, :message_id, '', '', :hash, ${now}, ${now})
on conflict (source, message_id) do update
set hash = case when ${statusBefore} = ${status.done} then coalesce(${m}.hash, excluded.hash) else coalesce(excluded.hash, ${m}.hash) end,
  last_seen_at = excluded.last_seen_at,
  deliveries = ${m}.deliveries + 1,
  content_changed = coalesce(${m}.hash <> excluded.hash, 0)
returning coalesce(${statusBefore} = ${status.done}, 0) as processed, content_changed`,
      ),
    // By hand, past any lease: Processing only from Seen; Dead never from Done. A message marked
    // Processing by hand is its marker's to finish, so it is visible to claims only at the end of time.
    mark: () =>
      statement(
        "mark",
        ...unpack(n),
        `insert into ${m} (seq, source, message_id, topic, payload, first_seen_at, last_seen_at)
values (${nextSeq(n)}, :source, :message_id, '', '', ${now}, ${now})
on conflict (source, message_id) do update
set last_seen_at = excluded.last_seen_at
returning seq`,
        `insert into ${n.state} (seq, status, visible_at)
select m.seq, ${status.ready}, m.first_seen_at
from json_each(:seqs)
join ${m} m on m.seq = value
where ${isUntouched(n, "value")}`,
        `update ${n.state} as s
set status = :status,
  owner = null,
  locked_until = null,
  visible_at = 253402214400000,
  processed_at = case when :status = ${status.done} then ${now} end,
  last_error = coalesce(:error, s.last_error)
where s.seq in (select value from json_each(:seqs))
  and case :status when ${status.held} then s.status = ${status.seen} else s.status <> ${status.done} end
returning seq`,
        `delete from ${lineTable(n)}
where seq in (select value from json_each(:seqs))${options.blockOnDead ? ` and :status <> ${status.dead}` : ""}`,
      ),
  });
}

export function outboxStatements(n: QueueNames, options: QueueStatementOptions): OutboxStatements {
  // The caller makes the ids, so that an enqueue whose answer was lost can be repeated and adds nothing.
  const enqueue = (
    values: string,
    more = "",
  ) => `insert into ${n.message} (seq, id, message_id, topic, payload,
  correlation_id, headers, due_at, expires_at${more}, created_at)
${values}
on conflict (id) do nothing`;

  return lazily({
    ...queueStatements(n, options),
    enqueue: () => statement("enqueue", enqueue(`values (${nextSeq(n)}, ${scalarOutbox}, ${nowWithin})`)),
    enqueueMany: () => ({
      constants: firstSeq(n),
      ...statement(
        "enqueue many",
        enqueue(`select :first_seq + i.key, ${jsonOutbox}, ${now} from json_each(:items) i where true`),
      ),
    }),
    enqueueKeyed: () => ({
      constants: firstSeq(n),
      ...statement(
        "enqueue keyed",
        enqueue(
          `select :first_seq + i.key, ${jsonOutbox}, ${field("partition_key")}, ${now} from json_each(:items) i where true`,
          ", partition_key",
        ),
      ),
    }),
  });
}
