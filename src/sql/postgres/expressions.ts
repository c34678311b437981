import { status } from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import { literal, type QueueNames, queueNames } from "../names.js";
import { mostCounted } from "../store-options.js";

export const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`;

export function names(kind: QueueNames["kind"], schema: string, table: string): QueueNames {
  const bare = (suffix: string) => quote(`${table}${suffix}`);
  const object = (suffix: string) => `${quote(schema)}.${bare(suffix)}`;
  return queueNames({ kind, schema, table }, { object, bare }, { message: "_messages", state: "_state" });
}

/** Done messages: appended by the ack, never changed. A message without a state row is done. */
export const doneTable = (n: QueueNames): string => n.object("_done");

/** The failed attempts of messages. An ack writes nothing here. */
export const attemptsTable = (n: QueueNames): string => n.object("_attempts");

/** The keys of inbox stores; only beside an inbox. */
export const keysTable = (n: QueueNames): string => n.object("_keys");

/** Dead messages that operators have archived. */
export const archiveTable = (n: QueueNames): string => n.object("_archive");
/** Pauses and limits; empty nearly always. */
export const controlsTable = (n: QueueNames): string => n.object("_controls");

/** Topics whose messages were acknowledged without a handler. */
export const unhandledTable = (n: QueueNames): string => n.object("_unhandled");

/**
 * Statements, each named after its property: `purgeKeys` is "purge keys" in logs and errors. The texts of `unprepared` are planned
 * each time, for their own conditions and limits.
 */
export const named = <Key extends string>(
  texts: Readonly<Record<Key, string>>,
  unprepared: readonly NoInfer<Key>[] = [],
): Readonly<Record<Key, SqlStatement>> => {
  const statements = {} as Record<Key, SqlStatement>;
  for (const [key, text] of Object.entries(texts) as [Key, string][]) {
    const named = statement(
      key.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`),
      text,
    );
    statements[key] = unprepared.includes(key) ? { ...named, unprepared: true } : named;
  }
  return statements;
};

/** Writes each of the columns that a text declares, such as `id uuid, topic text`. */
export const eachColumn = (columns: string, write: (name: string, type: string) => string): string =>
  columns.replace(/(\w+) (\w+)/g, (_, name: string, type: string) => write(name, type));

/** Every message with its state row or, when it is done, with its done row. */
export const messages = (n: QueueNames): string => `from ${n.message} m
left join ${n.state} s on s.seq = m.seq
left join ${doneTable(n)} d on d.seq = m.seq`;

/** The columns that identify a message, in the definition of a table. */
export const keyDefinition = (n: QueueNames): string =>
  n.kind === "inbox"
    ? 'source varchar(255) collate "C" not null,\n  message_id varchar(255) collate "C" not null'
    : "id uuid not null,\n  message_id uuid not null";

export const messageKey = (n: QueueNames): string => (n.kind === "inbox" ? "m.source, m.message_id" : "m.id");

/** The database's clock, unless a test passes a time. It is stable within a statement, so an index scan can use it. */
export const now = "coalesce(:now::timestamptz, statement_timestamp())";

/** A condition: a claim at this time finds the state `s`. */
export const isDue = (s: string, time: string): string =>
  `${s}.status = ${status.ready} and ${s}.visible_at <= ${time} and (${s}.reclaimable_at is null or ${s}.reclaimable_at <= ${time})`;

/** The first status of a message, and the column `keyed`: one with a partition key is blocked until it is the head of its queue. */
export const firstStatus = (partitionKey: string): string =>
  `case when ${partitionKey} is null then ${status.ready} else ${status.blocked} end`;
export const keyed = (partitionKey: string): string => `case when ${partitionKey} is not null then true end`;

/** The counters of the state `s` with so many more. */
export const moreAttempts = (by: string): string => `least(s.attempt + ${by}, ${mostCounted.attempts})`;
export const moreCrashes = (by: string): string => `least(s.crashes + ${by}, ${mostCounted.crashes})`;

export const ms = (expression: string) => `(${expression}) * interval '1 millisecond'`;

/** Milliseconds since 1970: a number is cheaper to write and to read than a timestamp's text. */
export const epochMs = (column: string) => `date_part('epoch', ${column}) * 1000`;

/**
 * Replaces the function in place: sessions that call it meanwhile go on, and grants stay. Only where a new version returns
 * other columns, which `create or replace` refuses, the function is dropped first. `parameters` may have those that it returns.
 */
export const createFunction = (
  name: string,
  parameters: string,
  returns: string,
  text: string,
  behaviour = "volatile",
): string =>
  replace(
    `create or replace function ${name}(${parameters})${returns === "" ? "" : `\n${returns}`}\nlanguage plpgsql\n${behaviour}\nas ${body(text)}`,
    "invalid_function_definition",
    [`function if exists ${name}(${withoutDefaults(parameters)})`],
  );

/** Behaviour of a function that runs with its owner's rights. They must not reach objects that a caller puts into the search path. */
export const asOwner = "volatile\nsecurity definer\nset search_path = pg_catalog, pg_temp";

/** The parameters of a function, where it is named and not created. */
export const withoutDefaults = (parameters: string): string => parameters.replaceAll(" default null", "");

/** The function of a trigger cannot be dropped; its declaration never changes. */
export const createTrigger = (name: string, text: string, behaviour = "volatile"): string =>
  `create or replace function ${name}() returns trigger\nlanguage plpgsql\n${behaviour}\nas ${body(text)}`;

/**
 * Replaces the view in place, so that grants stay. Only where a new version renames or moves columns, which `create or
 * replace` refuses, the view is dropped first, with the view of ours that may read it. A view of somebody else that reads it
 * stops the migration.
 */
export const createView = (name: string, query: string, reader = name): string =>
  replace(`create or replace view ${name} as\n${query}`, "invalid_table_definition", [
    `view if exists ${reader}`,
    `view if exists ${name}`,
  ]);

const replace = (definition: string, refusal: string, dropped: readonly string[]): string =>
  `do ${body(
    `declare
  definition constant text := ${literal(definition)};
begin
  execute definition;
exception when ${refusal} then
${dropped.map((one) => `  execute ${literal(`drop ${one}`)};`).join("\n")}
  execute definition;
end`,
  )}`;

const body = (text: string): string => {
  let tag = "$body$";
  for (let i = 1; text.includes(tag); i++) tag = `$body${i}$`;
  return `${tag}\n${text}\n${tag}`;
};
