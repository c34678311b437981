import { status } from "../dialect.js";
import { keyColumns, type QueueNames, queueNames } from "../names.js";
import { mostCounted } from "../store-options.js";

const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** SQLite has no schemas within a file: a schema's name becomes part of the table's. */
export const inSchema = (schema: string, name: string) => quote(schema === "" ? name : `${schema}.${name}`);

export function names(kind: QueueNames["kind"], schema: string, table: string): QueueNames {
  const object = (suffix: string) => inSchema(schema, `${table}${suffix}`);
  return queueNames(
    { kind, schema, table },
    { object, bare: object },
    { message: "Messages", state: "State" },
  );
}

/** Done messages: added by the ack, never changed. A message without a state row is done. */
export const doneTable = (n: QueueNames) => n.object("Done");

/**
 * The unfinished messages with a partition key. Only the head of a partition queue is ready, so a claim need not read this
 * table. See docs/decisions/0010.
 */
export const partitionQueue = (n: QueueNames) => n.object("PartitionQueue");

/** The failed attempts of messages. An ack writes nothing here. */
export const attemptsTable = (n: QueueNames) => n.object("Attempts");

/** Dead messages that operators have archived. */
export const archiveTable = (n: QueueNames) => n.object("Archive");

/** Pauses and limits; empty nearly always. */
export const controlsTable = (n: QueueNames) => n.object("Controls");

/** Topics whose messages were acknowledged without a handler. */
export const unhandledTable = (n: QueueNames) => n.object("Unhandled");

/** What operators have done. */
export const operationsTable = (schema: string) => inSchema(schema, "oncebox_operations");

/** The keys of an inbox store. */
export const keysTable = (n: QueueNames) => n.object("Keys");

/**
 * In milliseconds, provided by the runner of steps: the database's clock, unless a test passes a time. With the plus: after an
 * `analyze`, SQLite plans by a bare parameter, and so compiles the text again for every time. A claim took twice as long.
 */
export const now = "+:now";

export const whole = (expression: string) => `cast(${expression} as integer)`;

/** The counters of the state `s` with so many more. */
export const moreAttempts = (by: string) => `min(s.attempt + ${by}, ${mostCounted.attempts})`;
export const moreCrashes = (by: string) => `min(s.crashes + ${by}, ${mostCounted.crashes})`;

/** The wait after the attempt that `attempts` counts: min(base · factor^n, max) + random(0, jitter). */
export const backoff = (attempts: string) =>
  whole(
    `round(min(:max_ms, :base_ms * power(:factor, ${attempts})) + abs(random() % 1000000) / 1e6 * :jitter_ms)`,
  );

/** With the plus: SQLite plans by a bare `limit ?`, and so compiles the whole text again for every execution. */
export const limit = "+:limit";

export const lease = whole(":lease_ms");

/** Row numbers sent as a JSON array. */
export const sentSeqs = "(select value from json_each(:items))";
/** Row numbers that the last step with rows returned. */
export const stepSeqs = "(select value from json_each(:seqs))";

/** A property of an object `i` in a JSON array. */
export const field = (name: string) => `json_extract(i.value, '$.${name}')`;

/** The key columns of a message `m`. */
export const keysOf = (n: QueueNames) =>
  keyColumns(n)
    .map((column) => `m.${column}`)
    .join(", ");

/** Every message `m` with its state row `s` or, when it is done, with its done row `d`. */
export const messages = (n: QueueNames) => `from ${n.message} m
left join ${n.state} s on s.seq = m.seq
left join ${doneTable(n)} d on d.seq = m.seq`;

/** The status of one of these messages. */
export const statusOf = `coalesce(s.status, ${status.done})`;

/** A condition: the message of the state `s` can be claimed. A row with a lease was lost by its worker then. */
export const isDue = `s.status = ${status.ready} and s.visible_at <= ${now} and coalesce(s.reclaimable_at <= ${now}, true)`;

/** A step: the messages that the step before added get their state rows. */
export const addStates = (n: QueueNames, born: string) =>
  `insert into ${n.state} (seq, status, visible_at, expires_at, keyed)
select m.seq, ${status.ready}, coalesce(m.due_at, m.${born}), m.expires_at, iif(m.partition_key is null, null, 1)
from ${n.message} m
where m.seq in ${stepSeqs}`;

/** Hashes of two algorithms cannot be compared: of one content they differ, too. */
export const isOtherHash = (before: string, after: string): string =>
  `coalesce(${before} <> ${after} and ${algorithm(before)} = ${algorithm(after)}, 0)`;

/** With the colon. Empty for a hash that does not say it. */
const algorithm = (hash: string): string => `substr(${hash}, 1, instr(${hash}, ':'))`;
