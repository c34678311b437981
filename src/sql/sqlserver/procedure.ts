import { status } from "../dialect.js";
import { keywordsOf } from "../named-parameters.js";
import { keyColumns, type QueueNames } from "../names.js";
import { addMs, binary, doneTable, inLines } from "./expressions.js";
import { type ParameterName, type ProcedureName, parametersOf, parameterType } from "./procedure-calls.js";

export interface Procedure {
  /** Without the queue in front, such as `Claim`. */
  readonly suffix: ProcedureName;
  readonly name: string;
  /** The batch that creates or replaces it. Grants on it stay. */
  readonly text: string;
}

/** The first line of a procedure that needs the time. */
export const readClock = "declare @now datetime2(3) = sysutcdatetime();";
/** A name of the user's may contain it, too. */
export const needsClock = (body: string): boolean => /@now\b/.test(keywordsOf(body));

/**
 * The server's clock is the only one: with a time as a parameter, whoever may execute a procedure could steal leases or delete the
 * memory of duplicates. With XACT_ABORT on, an error, a timeout or a cancelled request leaves no half-written or open transaction behind.
 * `optional` parameters may be left out of a call and are null then. `declare` says how one is declared, where that differs from its type.
 */
export function procedure(
  n: QueueNames,
  suffix: ProcedureName,
  body: string,
  optional: readonly ParameterName[] = [],
  declare: (parameter: ParameterName, type: string) => string = (_, type) => type,
): Procedure {
  const name = n.object(`_${suffix}`);
  const parameters = parametersOf(n, suffix);
  const declared = parameters.map((one) => {
    const type = parameterType(n, one);
    return `@${one} ${declare(one, optional.includes(one) && !type.includes("=") ? `${type} = null` : type)}`;
  });
  const clock = needsClock(body) && !/declare @now\b/.test(body) ? `\n${readClock}` : "";
  return {
    suffix,
    name,
    text: `create or alter procedure ${name}${declared.length === 0 ? "" : `\n  ${inLines(declared)}`}
as
set nocount, xact_abort on;${clock}
${body}`,
  };
}

export const indented = (body: string) => body.replace(/^(?=.)/gm, "  ");

/** One transaction for several writes. Within a caller's own it begins and ends nothing: only the outermost COMMIT commits. */
export const atomically = (body: string) => `begin transaction;
${body}
commit transaction;`;

/**
 * The same for a procedure that turns XACT_ABORT off for a while. An error or a cancelled request then leaves a caller's
 * transaction open, and it must be as deep as before: its COMMIT would otherwise end the inner level only, and commit nothing.
 */
export const beginUnlessOpen = (
  body: string,
) => `declare @outermost bit = case when @@trancount = 0 then 1 else 0 end;
if @outermost = 1 begin transaction;
${body}
if @outermost = 1 commit transaction;`;

/**
 * READCOMMITTEDLOCK reads what is committed now, with READ_COMMITTED_SNAPSHOT and in a caller's SNAPSHOT transaction too: an
 * older version of a row would be taken for its state.
 */
export const readPast = "readpast, rowlock, readcommittedlock";
export const skipLocked = `updlock, ${readPast}`;
/**
 * For rows that are going to be deleted. Locked exclusively from the start, they are never waited for: an update lock would wait for
 * readers when the row goes, and a reader that has locked an entry of an index may wait for the row behind it.
 */
export const seizeFree = `xlock, ${readPast}`;

/** Hints of a table that is named behind UPDATE itself. SQL Server takes FORCESEEK and indexes in a FROM clause only (1069). */
export const lockTarget = "updlock, rowlock, readcommittedlock";
/**
 * Locks a row that this transaction may change, or changes it. FORCESEEK: a scan would wait for every open transaction. It names no index
 * where only one can be sought by the columns that are compared, so that a renamed index stops nothing. And it leaves the server
 * one way to join: a loop that seeks the row for each of the rows that name it.
 */
export const lockRow = `forceseek, ${lockTarget}`;
/**
 * The clustered index, which has no other number, under any name. It is named where a dead state could be sought in the index of dead
 * states as well: two procedures that enter a table through two indexes lock its entries in two orders.
 */
export const ownRow = "index(1)";

/**
 * READPAST skips the rows of other claimers instead of waiting for them. UPDLOCK locks the chosen rows.
 * READCOMMITTEDLOCK makes both work in a database with READ_COMMITTED_SNAPSHOT, where reads would not lock otherwise.
 *
 * `by` is how the rows are found. For the ready it is FORCESEEK: only their index begins with visible_at, and a plan made while the queue
 * was empty would scan the table.
 *
 * The condition must have a column that is not in the index, such as reclaimable_at: the row itself is read then, and locked
 * or skipped, before TOP counts it. Otherwise TOP would count rows whose index entries are free and whose states are
 * locked, and a page of them would look like an empty queue.
 */
export const pickFrom = (n: QueueNames, by = "forceseek") => `${n.state} r with (${by}, ${skipLocked})`;

/**
 * Without the name of their index, the dead would be found by walking past all other states: both have the number that the rows are in
 * the order of.
 */
export const deadIndex = (n: QueueNames): string => `index(${n.bare("_Dead")})`;

/**
 * Joins row by row, in the order of the text. FORCESEEK alone makes a loop of a join by a row's number or key. This stands only where
 * that is not enough, and each use says why: tables are locked in an order, or FORCESEEK could be satisfied without the joined
 * row, by seeking something else. Each hint more is a way to error 8622, which is a procedure that cannot run.
 */
export const rowByRow = "option (loop join, force order)";

/**
 * Changes the first @limit states that match, without waiting for any, and puts their numbers into @changed. Each is tested again
 * where it is locked: another process may have changed it by then.
 */
export function changeFirst(
  n: QueueNames,
  set: string,
  { by, which, order }: { by?: string; which: (s: string) => string; order: string },
): string {
  const s = stateTable(n);
  return `declare @changed table (seq bigint not null primary key);

update ${n.state}
set ${set}
output inserted.seq into @changed (seq)
from (
  select top (@limit) r.seq
  from ${pickFrom(n, by)}
  where ${which("r")}
  order by ${order}
) p, ${n.state} with (forceseek, ${skipLocked})
-- by each row: the condition alone could be sought, too
where ${s}.seq = p.seq and ${which(s)} ${rowByRow};`;
}

/** Deletes the rows that a table of the queue has for the messages in `gone`, which has `seq`. */
export const deleteEach = (
  n: QueueNames,
  table: string,
  gone: string,
): string => `delete from ${n.object(table)}
from ${gone} g, ${n.object(table)} with (${lockRow})
where ${n.bare(table)}.seq = g.seq;`;

export const seqs = "openjson(@items) with (seq bigint '$') i";

/**
 * The names of the tables within a statement. A table that is written to has no alias and is joined by commas. SQL Server
 * accepts other forms as well. But Babelfish checks the condition on an old version of a row that is joined by JOIN, so
 * that two claimers get it, and refuses an alias together with OUTPUT.
 */
export const stateTable = (n: QueueNames) => n.bare("State");
export const messageTable = (n: QueueNames) => n.bare("Messages");

/** A row that @owner holds. Whatever ends a lease empties the owner. */
export const owned = (s: string) => `${s}.owner = @owner`;

/** A lease does not change the status: until `reclaimable_at`, nobody else may claim the row. */
export const claimable = (s: string) =>
  `${s}.status = ${status.ready} and ${s}.visible_at <= @now and (${s}.reclaimable_at is null or ${s}.reclaimable_at <= @now)`;

export const isLost = (s: string) => `${s}.locked_until is not null`;

export const prepareLease = (n: QueueNames) =>
  `declare @lease_end datetime2(3) = ${addMs(n, "@now", "@lease_ms")};`;

/** The database is found by its name: in Azure SQL its DB_ID may be another number than the one in sys.databases. */
const waits =
  "exists (select 1 from sys.databases d where d.name = db_name() and d.is_read_committed_snapshot_on = 0)";

/** How long a read of people waits for an open transaction, where it has to: one that takes longer may stay open for hours. */
const readWaitMs = 1_000;

/**
 * For procedures that show messages. With READ_COMMITTED_SNAPSHOT they wait for nobody. Without it they wait a moment and
 * fail with 1222: to read a long text without locks, while it is written, ends the connection (7105).
 */
export const readShortly = `if @@trancount = 0 and ${waits}
  set lock_timeout ${readWaitMs};
`;

/**
 * For counts that nothing depends on, which read no long text. Without READ_COMMITTED_SNAPSHOT they read without locks, and may
 * count what is not committed yet.
 */
export const countFreely = `if ${waits}
  set transaction isolation level read uncommitted;
`;

/** What the natural key is called in the parameters and in the table of messages. Only one index begins with it. */
export const isKeyOf = (n: QueueNames, m = "m"): string =>
  n.kind === "inbox" ? `${m}.source = @source and ${m}.message_id = @message_id` : `${m}.id = @id`;

/** The columns that `keyDefinition` defines. */
export const keyOfMessage = (n: QueueNames): string =>
  n.kind === "inbox" ? "source, message_id" : "id, message_id";

/** The same message in two tables. */
export const isSameKey = (n: QueueNames, a: string, b: string): string =>
  keyColumns(n)
    .map((column) => `${a}.${column} = ${b}.${column}`)
    .join(" and ");

/**
 * Finds the known messages and inserts the others, in a transaction of `beginUnlessOpen`. When another call inserts the same key in between, the insert waits for
 * it and fails. In a transaction of its own the procedure fails too, and the caller's retry finds the message. A caller's
 * transaction must not be doomed by that: XACT_ABORT is off for the insert, and the next round finds what the other call
 * has committed. A range lock would prevent all this, but would also make every new key wait for its neighbour. The
 * two conditions say whose the transaction is.
 */
export const findOrInsert = (
  find: string,
  insert: string,
  { isCallers, isOurs } = { isCallers: "@outermost = 0", isOurs: "@outermost = 1" },
): string => `declare @rounds int = 0, @again bit = 1;

while @again = 1
begin
  set @again = 0;

${indented(find)}

  begin try
    if ${isCallers} set xact_abort off;

${indented(indented(insert))}
  end try
  begin catch
    set @rounds = @rounds + 1;
    if ${isOurs} or @rounds = 10 or error_number() not in (2601, 2627)
    begin; throw; end;
    set @again = 1;
  end catch;

  set xact_abort on;
end`;

/** Columns of one table: `columns("m", "seq, topic")` is `m.seq, m.topic`. */
export const columns = (alias: string, list: string) =>
  inLines(list.split(", ").map((column) => `${alias}.${column}`));

/** What the natural key is in the table of messages `m`. */
export const messageKey = (n: QueueNames): string => (n.kind === "inbox" ? "m.source, m.message_id" : "m.id");

/**
 * Functions of a row's number, for the procedures that both queues have: only these functions know in which columns the
 * queues differ. Each is a query and no code: the server puts it into the statement that calls it.
 *
 * Each reads one table. Of two, FORCE ORDER would have the server join them to each other before it joins the rows that
 * call the function: without a number to seek, so that FORCESEEK would make the statement fail (error 8622).
 */
export const rowFunctions = (n: QueueNames): readonly string[] => {
  const own =
    n.kind === "inbox"
      ? "source, message_id, hash, first_seen_at, last_seen_at, deliveries"
      : "id, message_id, created_at, natural_key";
  const message = `topic, type, payload, partition_key, headers, correlation_id, due_at, expires_at as given_expires_at, ${own}`;
  const source = n.kind === "inbox" ? "" : `cast(null as nvarchar(255)) ${binary} as source, `;
  const ofRow = (
    suffix: string,
    selected: string,
  ) => `create or alter function ${n.object(suffix)} (@seq bigint)
returns table as return
select ${selected}
from ${n.message} m with (forceseek)
where m.seq = @seq`;
  return [ofRow("_MessageOf", columns("m", message)), ofRow("_KeyOf", `${source}${messageKey(n)}, m.topic`)];
};

/**
 * The row of a message in any state: of its state `s`, its done row `d`, one of which exists, and the message `m`. While an
 * acknowledgement moves the one to the other, a read without locks may find neither.
 */
export const rowOf = (seq: string) => `${seq} as seq, coalesce(s.status, ${status.done}) as status,
  coalesce(s.attempt, d.attempt, 0) as attempt, coalesce(s.crashes, 0) as crashes, s.owner, s.locked_until,
  coalesce(s.reclaimable_at, s.visible_at, d.processed_at, sysutcdatetime()) as next_attempt_at,
  case when s.seq is null then m.given_expires_at else s.expires_at end as expires_at,
  coalesce(s.last_error, d.last_error) as last_error, s.error_group, s.last_attempt_at, s.died_at,
  d.processed_at, d.processed_by, d.resolution, m.*`;

/** The state or the done row of the message with this number: the state first, which an acknowledgement deletes. */
export const withState = (
  n: QueueNames,
  seq: string,
) => `left join ${n.state} s with (forceseek) on s.seq = ${seq}
left join ${doneTable(n)} d with (forceseek) on d.seq = ${seq}`;

/** The row of a message that has just been claimed, of which `c` is the state. */
export const claimedRow = `c.seq, c.attempt, c.crashes, c.locked_until, c.reclaimable_at as next_attempt_at, c.expires_at,
    c.last_error, c.last_attempt_at, m.*`;

/** The message with this number, as `m`: a join in a FROM clause. */
export const withMessage = (n: QueueNames, seq: string) => `cross apply ${n.object("_MessageOf")}(${seq}) m`;

/** The key of the message with this number, its topic, and its source, which is null in an outbox. */
export const keyOf = (n: QueueNames, seq: string) => `${n.object("_KeyOf")}(${seq})`;
