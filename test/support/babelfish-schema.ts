import { unicodeLiteral } from "../../src/sql/sqlserver/expressions.js";

/**
 * Babelfish stands in for SQL Server where there is none. The product's schema is written for SQL Server only. This turns a
 * batch of it into batches that Babelfish accepts.
 */
export function toBabelfish(given: string): readonly string[] {
  const batch = given.replaceAll(/^\s*exec sp_tableoption .*\n?/gm, ""); // where a table's texts are stored is no matter there
  if (batch === "") return [];
  const match = /^create or alter (procedure|function|view) ((?:\[(?:[^\]]|\]\])+\]\.?)+)/.exec(batch);
  if (match === null) return [batch];
  const [, kind, name] = match;
  const create = batch.replace("create or alter", "create");
  if (kind === "function") return [`drop function if exists ${name}`, create];
  // A view that another one reads can be neither altered nor dropped there. Its text is the same in every test.
  if (kind === "view")
    return [`if object_id(${unicodeLiteral(name!)}, N'V') is null\n  exec(${unicodeLiteral(create)})`];
  return [
    `if object_id(${unicodeLiteral(name!)}, N'P') is null\n  exec(${unicodeLiteral(`create procedure ${name} as return 0`)})`,
    withEarlyTransaction(withPostgresJson(withAdvisoryLocks(batch.replace("create or alter", "alter")))),
  ];
}

/** Babelfish's sp_getapplock ends the server when several sessions ask for one lock; PostgreSQL's advisory locks do not. */
const withAdvisoryLocks = (text: string): string =>
  text.replaceAll(
    /exec @locked = sp_getapplock @Resource = (.*?), @LockMode = 'Exclusive', @LockOwner = 'Transaction'(, @LockTimeout = 0)?;/g,
    (_, name: string, never?: string) =>
      never === undefined
        ? `select @locked = len(cast(pg_advisory_xact_lock(hashtext(${name})) as nvarchar(10)));`
        : `select @locked = cast(pg_try_advisory_xact_lock(hashtext(${name})) as int) - 1;`,
  );

/** Babelfish calls the right on a function EXECUTE, also where it is one on SELECT because the function returns rows. */
export const withFunctionRights = (script: string): string =>
  script.replaceAll(/^grant select (on \S+_(?:After|KeyOf)\] )/gm, "grant execute $1");

/** Babelfish ignores UPDLOCK, and an update that changes nothing locks the row there. For the text that locks an operation's row. */
export function withRowLock(text: string): string {
  const table = /from (\[(?:[^\]]|\]\])+\]\.\[\w+\]) o with \(.*?\bupdlock\b/.exec(text)?.[1];
  if (table === undefined) throw new Error(`This text does not lock a row as expected: ${text}`);
  return text.replace(
    "exec sp_executesql",
    (found) => `update ${table} set done = done where id = @typed_id;\n${found}`,
  );
}

/** Babelfish cannot read a long text in a table variable that was filled before the transaction began. */
const withEarlyTransaction = (text: string): string =>
  text.replace(
    /(if @items is null\s+insert into @messages .*?)((?:declare @outermost [^\n]+\nif @outermost = 1 )?begin transaction;\n)/s,
    "$2\n$1",
  );

/**
 * Babelfish's openjson cuts texts at 4,000 characters and does not unescape them, and its convert cannot read hexadecimal.
 * PostgreSQL's own functions, which are callable there, can.
 */
function withPostgresJson(text: string): string {
  const read = (columns: string, value: string) =>
    listed(columns)
      .map((one) => one.split(/ (.*)/s) as [string, string])
      .map(
        ([column, type]) =>
          `cast(json_extract_path_text(cast(${value} as json), '${column}') as ${type}) as ${column}`,
      )
      .join(", ");
  return text
    .replaceAll(
      /openjson\(@items\) with \(([^']*?nvarchar[^']*?)\) i(?=,|\n)/g,
      (_, columns: string) => `(select ${read(columns, "j.value")} from openjson(@items) j) i`,
    )
    .replaceAll(
      /cross apply openjson\(a\.value\) with \(\n(.*?)\n\s*\) i;/gs,
      (_, columns: string) => `cross apply (select ${read(columns, "a.value")}) i;`,
    )
    .replaceAll(/convert\(varbinary\(max\), (i\.\w+), 2\)/g, "cast(decode($1, 'hex') as varbinary(max))");
}

/** The parts of a list: its commas, and not those between parentheses. */
const listed = (text: string): readonly string[] => text.split(/,\s+(?![^()]*\))/).map((one) => one.trim());
