import { literal, type QueueNames, queueNames } from "../names.js";
import { mostCounted } from "../store-options.js";

export const quote = (name: string): string => `[${name.replaceAll("]", "]]")}]`;

export function names(kind: QueueNames["kind"], schema: string, table: string): QueueNames {
  const bare = (suffix: string) => quote(`${table}${suffix}`);
  const object = (suffix: string) => `${quote(schema)}.${bare(suffix)}`;
  return queueNames({ kind, schema, table }, { object, bare }, { message: "Messages", state: "State" });
}

/** Done messages: they have no state row. */
export const doneTable = (n: QueueNames): string => n.object("Done");

/** The failed attempts of messages. An ack writes nothing here. Only a caller that has locked a message's state writes its rows. */
export const attemptsTable = (n: QueueNames): string => n.object("Attempts");

/** The keys of inbox stores; only beside an inbox. */
export const keysTable = (n: QueueNames): string => n.object("Keys");

/** Dead messages that operators have archived. */
export const archiveTable = (n: QueueNames): string => n.object("Archive");

/** Pauses and limits; empty nearly always. */
export const controlsTable = (n: QueueNames): string => n.object("Controls");

/** Topics whose messages were acknowledged without a handler. */
export const unhandledTable = (n: QueueNames): string => n.object("Unhandled");

export const unicodeLiteral = (value: string): string => `N${literal(value)}`;

/** Compares byte by byte: `=` must not depend on the collation that the database was created with. */
export const binary = "collate Latin1_General_100_BIN2";

/** The columns that identify a message, in the definition of a table. */
export const keyDefinition = (n: QueueNames): string =>
  n.kind === "inbox"
    ? `source nvarchar(255) ${binary} not null,\n  message_id nvarchar(255) ${binary} not null`
    : "id uniqueidentifier not null,\n  message_id uniqueidentifier not null";

const dayMs = 24 * 60 * 60 * 1000;

/**
 * The function that `addMs` calls. `dateadd` takes an int, which ends at 24.8 days of milliseconds, so whole days and the rest are
 * added separately. It is a query and no code: the server puts it into the statement that calls it.
 */
export const afterFunction = (
  n: QueueNames,
): string => `create or alter function ${n.object("_After")} (@time datetime2(3), @ms float)
returns table as return
select dateadd(millisecond, cast(cast(round(@ms, 0) as bigint) % ${dayMs} as int),
  dateadd(day, cast(cast(round(@ms, 0) as bigint) / ${dayMs} as int), @time)) as later`;

/** A time plus a number of milliseconds, which may begin on a line of its own. */
export const addMs = (n: QueueNames, time: string, ms: string): string =>
  `(select a.later from ${n.object("_After")}(${time},${ms.startsWith("\n") ? "" : " "}${ms}) a)`;

/**
 * Variables for `backoffSql`, computed once per call: the attempt from which the exponential exceeds the longest delay, and
 * a random number. (SQL Server may evaluate `newid()` in the expression itself several times, or once for all rows.)
 */
export const prepareBackoff = `declare @capped_from float =
  case when @base_ms >= @max_ms then 0 when @factor > 1 then log(@max_ms / @base_ms) / log(@factor) else ${2 * mostCounted.attempts} end;
declare @random bigint = abs(cast(checksum(newid()) as bigint)) % 1000000;`;

/** The wait after the attempt that `attempts` counts: min(base · factor^n, max) + random(0, jitter). */
export function backoffSql(attempts: string, seq: string): string {
  const exponential = `case when ${attempts} < @capped_from then @base_ms * power(@factor, ${attempts}) else @max_ms end`;
  // Steps of the golden ratio from the call's one random number: each row gets a different jitter.
  return `${exponential}
    + @jitter_ms * ((${seq} % 1000000 * 618034 + @random) % 1000000) / 1000000`;
}

/** The counters of the state `s` with so many more. */
export const moreAttempts = (s: string, by: string): string =>
  upTo(mostCounted.attempts, `${s}.attempt + ${by}`);
export const moreCrashes = (s: string, by: string): string =>
  upTo(mostCounted.crashes, `${s}.crashes + ${by}`);

const upTo = (most: number, count: string): string =>
  `case when ${count} < ${most} then ${count} else ${most} end`;

/** A condition as a value to add or to return. */
export const asInt = (condition: string): string => `case when ${condition} then 1 else 0 end`;
export const asBit = (condition: string): string => `cast(${asInt(condition)} as bit)`;

const width = 120;

/** A list with commas, in lines of a readable length. The first line is not indented: it goes on where the text before it ends. */
export function inLines(items: readonly string[], indent = "  "): string {
  const lines: string[] = [];
  for (const item of items) {
    const last = lines.at(-1);
    const longer = `${last}, ${item}`;
    if (last === undefined || indent.length + longer.length > width) lines.push(item);
    else lines[lines.length - 1] = longer;
  }
  return lines.join(`,\n${indent}`);
}
