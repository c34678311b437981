import { status } from "../dialect.js";
import { createdColumn, keyColumns, type QueueNames, queueNames } from "../names.js";
import { databaseClock } from "./steps.js";

const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** SQLite has no schemas within a file: a schema's name becomes part of the table's. */
export const inSchema = (schema: string, name: string) => quote(schema === "" ? name : `${schema}.${name}`);

export function names(kind: QueueNames["kind"], schema: string, table: string): QueueNames {
  const object = (suffix: string) => inSchema(schema, `${table}${suffix}`);
  return queueNames({ kind, schema, table }, { object, bare: object }, { state: "State", view: "Messages" });
}

/**
 * One row with the number of a message. Every message up to it has a state row, so a claim looks for unclaimed messages
 * (those without a state row) only after it. See docs/decisions/0009.
 */
export const cursorTable = (n: QueueNames) => n.object("Cursor");

/**
 * The messages with a partition key that are not finished. Only the head of a partition queue is ready or held, so a
 * claim need not read this table. See docs/decisions/0010.
 */
export const partitionQueue = (n: QueueNames) => n.object("PartitionQueue");

/** The failed attempts of messages. An ack writes nothing here. */
export const attemptsTable = (n: QueueNames) => n.object("Attempts");

/** Dead messages that operators have archived. */
export const archiveTable = (n: QueueNames) => n.object("Archive");
/** Pauses and limits; empty nearly always. */
export const controlsTable = (n: QueueNames) => n.object("Controls");

/** In milliseconds, provided by the runner of steps: the database's clock, unless a test passes a time. */
export const now = ":now";

/** The same for a statement of one step, where reading the clock first would take a tenth of the statement's time. */
export const ownNow = `coalesce(:given_now, ${databaseClock})`;

export const whole = (expression: string) => `cast(${expression} as integer)`;

/** The wait after the attempt that `attempts` counts: min(base · factor^n, max) + random(0, jitter). */
export const backoff = (attempts: string, random = "abs(random() % 1000000) / 1e6") =>
  whole(`round(min(:max_ms, :base_ms * power(:factor, min(${attempts}, 64))) + ${random} * :jitter_ms)`);

/** With the plus: SQLite plans by a bare `limit ?`, and so compiles the whole text again for every execution. */
export const limit = "+:limit";

export const lease = whole(":lease_ms");

/** Row numbers sent as a JSON array. */
export const sentSeqs = "(select value from json_each(:items))";
/** Row numbers that the step before returned. */
export const stepSeqs = "(select value from json_each(:seqs))";

/** A message without a state row is unclaimed: due since it arrived, and never claimed. */
export const isUnclaimed = (n: QueueNames, seq: string) =>
  `not exists (select 1 from ${n.state} where seq = ${seq})`;

/** Unclaimed messages `m`: all of them are after the cursor. */
export const unclaimed = (n: QueueNames) => `from ${n.message} m
where m.seq > (select seq from ${cursorTable(n)}) and ${isUnclaimed(n, "m.seq")}`;

/** The columns of a message's state, where an unclaimed one has none: `m` left joined to its state `s`. */
export const stateColumns = {
  status: `coalesce(s.status, ${status.ready})`,
  attempt: "coalesce(s.attempt, 0)",
  crashes: "coalesce(s.crashes, 0)",
} as const;
export const visibleAt = (n: QueueNames) => `coalesce(s.visible_at, m.${createdColumn(n)})`;

/** Since when the state `s` was claimable at its last claim: it has no such time while its first claim was of an unclaimed message. */
export const dueSince = (n: QueueNames) =>
  `coalesce(s.due_since, (select ${createdColumn(n)} from ${n.message} where seq = s.seq))`;

/** The key columns of a message `m`. */
export const keysOf = (n: QueueNames) =>
  keyColumns(n)
    .map((column) => `m.${column}`)
    .join(", ");

/** Every message `m` with its state `s`. */
export const messages = (n: QueueNames) => `from ${n.message} m
left join ${n.state} s on s.seq = m.seq`;

/**
 * The next message's number: never one that was used before. `autoincrement` would promise the same, but writes one more
 * page for every message.
 */
export const nextSeq = (n: QueueNames) =>
  `(select max(last_deleted, coalesce((select max(seq) from ${n.message}), 0)) + 1 from ${cursorTable(n)})`;

/** A step that reads the first number of a batch: an insert that reads its own table would buffer all its rows. */
export const readFirstSeq = (n: QueueNames) => `select ${nextSeq(n)} as first_seq`;
export const seqInBatch = "json_extract(:rows, '$[0].first_seq') + i.key";

/** A message that was marked Processing by hand is finished by hand: claims see it at the end of time only. */
export const endOfTime = Date.UTC(9999, 11, 31);

/** A key of an inbox store that nobody holds at `time`. */
export const isFreeKey = (time: string) =>
  `(status = ${status.leased} and (locked_until is null or locked_until <= ${time}))`;

/** Seen, marked Processing by hand, or a free key: no claim finds it, and a delivery at `time` makes it claimable. */
export const awaitsDelivery = (time: string) =>
  `(status = ${status.seen} or (status = ${status.held} and visible_at = ${endOfTime}) or ${isFreeKey(time)})`;

/** Not leased: it waits for its time, for the head of its partition queue or for a control, or came back from a worker. */
export const isWaiting = `(status in (${status.ready}, ${status.blocked}, ${status.parked})
    or (status = ${status.held} and locked_until is null and visible_at < ${endOfTime}))`;

/** The rows of the index of expiries. A query uses the index only where it has this condition word for word. */
export const hasExpiry = `expires_at is not null and status in (${status.ready}, ${status.held}, ${status.blocked}, ${status.dead}, ${status.parked})`;

/** The status of the message that an upsert found; null when it is unclaimed. */
export const foundStatus = (n: QueueNames) =>
  `(select s.status from ${n.state} s where s.seq = ${n.message}.seq)`;

/** A property of an object `i` in a JSON array of messages. */
export const field = (name: string) => `json_extract(i.value, '$.${name}')`;
