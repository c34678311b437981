/**
 * The schema of SQL Server as scripts for sqlcmd, in which a DBA reads once what both queues have: docs/decisions/0037. What
 * is shared is found by comparing, so a change to a procedure needs no change here.
 */
import { recordedMigration } from "../src/sql/migrate.js";
import type { QueueNames } from "../src/sql/names.js";
import { sqlServerDialect as dialect } from "../src/sql/sqlserver/dialect.js";
import { longestSharedRun, sharedText, type Variable } from "./shared-text.js";

type Kind = QueueNames["kind"];
const kinds = ["inbox", "outbox"] as const;

/** Every one of them costs the reader a look at the top of a queue's part. */
const variables: readonly Variable[] = [
  { name: "Kind", inbox: "inbox", outbox: "outbox" },
  { name: "CreatedAt", inbox: "first_seen_at", outbox: "created_at" },
  { name: "SeenAt", inbox: "last_seen_at", outbox: "created_at" },
];

const schema = "$(Schema)";
const queueOf = (kind: Kind) => dialect.names(kind, schema, "$(Queue)");
const routinesOf = (kind: Kind) => dialect.routines(queueOf(kind));
const migrationsOf = (kind: Kind) =>
  dialect.migrations[kind].flatMap((migration) => recordedMigration(dialect, queueOf(kind), migration));

/** `create or alter procedure [$(Schema)].[$(Queue)_Claim]`, the same for both queues. */
const headOf = (routine: string) => /^create or alter \w+ \S+/.exec(routine)?.[0];

const sharedRoutines: ReadonlyMap<string | undefined, string> = new Map(
  routinesOf("inbox").flatMap((routine) => {
    const head = headOf(routine);
    const other = routinesOf("outbox").find((one) => headOf(one) === head);
    const shared = other === undefined ? undefined : sharedText(routine, other, variables);
    return shared === undefined ? [] : [[head, shared] as const];
  }),
);

const migrationLines = (kind: Kind) => migrationsOf(kind).join("\n").split("\n");
const sharedRun = longestSharedRun(
  migrationLines("inbox"),
  migrationLines("outbox"),
  (one, other) => sharedText(one, other, variables) !== undefined,
);
const tablesOf = (kind: Kind) => {
  const from = sharedRun.at[kinds.indexOf(kind)]!;
  return wholeStatements(migrationLines(kind).slice(from, from + sharedRun.length)).join("\n");
};

/** Without the parts of a statement at either end. Statements stand two spaces in, within the transaction of a migration. */
function wholeStatements(lines: readonly string[]): readonly string[] {
  const first = lines.findIndex((line) => /^ {2}(create|alter) /.test(line));
  const last = lines.findLastIndex((line) => /^ {2}\S.*;$/.test(line));
  if (first < 0 || last < first) throw new Error("The queues have no table or index in common.");
  return lines.slice(first, last + 1);
}

const madeBy = "Made by npm run render:sql; do not edit";
/** The end of the transaction is there, too, so that a script that cannot read the file does not record a migration without its tables. */
export const tablesHeader = `-- The tables and indexes that both queues have, and the end of the transaction that sqlserver.sql begins. ${madeBy}.\n`;

const include = (file: string) => `:r $(Folder)/${file}`;
const inBatches = (batches: readonly string[]) =>
  batches.map((batch) => `${batch}${dialect.batchSeparator}`).join("\n");

/** For a window in which the guard below has stopped the script before. */
export const executeAgain = "set noexec off";

const start = `-- The oncebox schema, for SQL Server 2017 or newer, a compatibility level of 130 or more, and Azure SQL. ${madeBy}
-- anything but the values of :setvar. Run it with sqlcmd in the folder of this file and of the two that it reads,
-- sqlserver-tables.sql and sqlserver-queue.sql, with -E, -U or -G, as you log in:
--   sqlcmd -S "$SQL_SERVER" -d "$SQL_DATABASE" -i sqlserver.sql
-- It may be run again: tables stay as they are, procedures are replaced, and rights on them stay. In SSMS, turn SQLCMD mode on
-- and give the whole path of the folder as Folder, without spaces. Other clients run what oncebox migrate --print --all
-- prints: the same schema as plain T-SQL. users-sqlserver.sql gives users their rights.
-- For other names, change Schema here and the two lines of Queue below; sqlcmd's -v does not change them. A name with a
-- space stands in double quotes. One with a quote or a bracket needs oncebox migrate. To leave a queue out, delete its part.
:setvar Folder .
:setvar Schema infra
:on error exit
${executeAgain}
go
`;

/** Without SQLCMD mode, a client would go on after the lines above and create a schema with the name of the variable. */
export const guard = `if N'$(Schema)' = N'$' + N'(Schema)'
begin
  raiserror(N'Run this script with sqlcmd, or in SQLCMD mode.', 16, 1);
  set noexec on;
end`;

function queuePart(kind: Kind): string {
  const own = routinesOf(kind).filter((routine) => !sharedRoutines.has(headOf(routine)));
  const isProcedure = (routine: string) => routine.startsWith("create or alter procedure ");
  const migrations = migrationsOf(kind).map((batch) =>
    batch.replace(tablesOf(kind), () => include("sqlserver-tables.sql")),
  );
  return `-- The ${kind}
:setvar Queue ${dialect.defaults[kind]}
${variables.map((variable) => `:setvar ${variable.name} ${variable[kind]}\n`).join("")}go

${inBatches([...migrations, ...own.filter((routine) => !isProcedure(routine))])}
${include("sqlserver-queue.sql")}

${inBatches(own.filter(isProcedure))}`;
}

export const sqlcmdSchema = (): readonly { readonly file: string; readonly sql: string }[] => [
  {
    file: "sqlserver.sql",
    sql: [start, inBatches([guard, ...dialect.ledger.prepare(schema)]), ...kinds.map(queuePart)].join("\n"),
  },
  {
    file: "sqlserver-tables.sql",
    sql: `${tablesHeader}${sharedText(tablesOf("inbox"), tablesOf("outbox"), variables)}\n`,
  },
  {
    file: "sqlserver-queue.sql",
    sql: `-- The functions and procedures that both queues have. sqlserver.sql reads it once for each. ${madeBy}.
go

${inBatches([...sharedRoutines.values()])}`,
  },
];
