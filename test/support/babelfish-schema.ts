import { binary, unicodeLiteral } from "../../src/sql/sqlserver/expressions.js";

/**
 * Babelfish stands in for SQL Server where there is none. The product's schema is written for SQL Server alone. This turns a
 * batch of it into batches that Babelfish accepts.
 */
export function toBabelfish(batch: string): readonly string[] {
  const match = /^create or alter (procedure|function|view) ((?:\[(?:[^\]]|\]\])+\]\.?)+)/.exec(batch);
  if (match === null) return [batch];
  const [, kind, name] = match;
  const create = batch.replace("create or alter", "create");
  if (kind === "function")
    return [
      `drop function if exists ${name}`,
      create.includes("openjson") ? withPostgresJson(create) : create,
    ];
  // A view that another one reads can be neither altered nor dropped there. Its text is the same in every test.
  if (kind === "view")
    return [`if object_id(${unicodeLiteral(name!)}, N'V') is null\n  exec(${unicodeLiteral(create)})`];
  return [
    `if object_id(${unicodeLiteral(name!)}, N'P') is null\n  exec(${unicodeLiteral(`create procedure ${name} as return 0`)})`,
    withEarlyTransaction(withAdvisoryLocks(batch.replace("create or alter", "alter"))),
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
  script.replaceAll(/^grant select (on \S+_After\] )/gm, "grant execute $1");

/** Babelfish ignores UPDLOCK, and an update that changes nothing locks the row there. For the text that locks an operation's row. */
export function withRowLock(text: string): string {
  const table = /from (\[(?:[^\]]|\]\])+\]\.\[\w+\]) o with \(.*?\bupdlock\b/.exec(text)?.[1];
  if (table === undefined) throw new Error(`This text does not lock a row as expected: ${text}`);
  return text.replace("exec sp_executesql", `update ${table} set done = done where id = @typed_id;\n$&`);
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
function withPostgresJson(create: string): string {
  const parts =
    /^(.*? return\n)select cast\(a\.\[key\] as int\) as position,(.*)\nfrom openjson.*with \(\n(.*)\n\) i$/s.exec(
      create,
    );
  if (parts === null) throw new Error(`This function does not read JSON as expected: ${create}`);
  const [, head, selected, read] = parts;
  const selections = listed(selected!);
  const columns = listed(read!).map((one, index) => {
    const [column, type] = one.split(/ (.*)/s) as [string, string];
    const value = `json_extract_path_text(cast(i.value as json), '${column}')`;
    const selection = selections[index]!;
    const bytes = /convert\((varbinary\(max\))/.exec(selection)?.[1];
    const cast =
      bytes === undefined ? `cast(${value} as ${type})` : `cast(decode(${value}, 'hex') as ${bytes})`;
    return `${cast}${selection.includes(binary) ? ` ${binary}` : ""} as ${column}`;
  });
  return `${head}select cast(i.[key] as int) as position,\n  ${columns.join(",\n  ")}\nfrom openjson(@items) i`;
}

/** The parts of a list: its commas, and not those between parentheses. */
const listed = (text: string): readonly string[] => text.split(/,\s+(?![^()]*\))/).map((one) => one.trim());
