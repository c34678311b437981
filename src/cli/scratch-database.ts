import { randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import { databaseOpeners } from "../config/database-openers.js";
import type { Database } from "../sql/dialect.js";
import { type SqlQueryable, sqliteFileOf } from "../sql/driver.js";
import { UsageError } from "./command.js";

/** Where to measure: a schema that did not exist, or a SQLite file that did not. */
export interface ScratchDatabase {
  readonly db: Database;
  /** Undefined on SQLite, which has no schemas. */
  readonly schema: string | undefined;
  /** For a person who has to remove it by hand. */
  readonly name: string;
  /** Removes everything that was made. */
  drop(): Promise<void>;
}

/** Makes a scratch database on the server, or beside the file, of `db`. Nothing that exists is read or changed. */
export const createScratch = (db: Database, schema: string | undefined): Promise<ScratchDatabase> =>
  db.dialect.name === "sqlite" ? scratchFile(db) : scratchSchema(db, schema ?? `oncebox_bench_${suffix()}`);

const suffix = (): string => randomBytes(4).toString("hex");

/** In the same folder, because its disk is what is measured. */
async function scratchFile(db: Database): Promise<ScratchDatabase> {
  const own = sqliteFileOf(db);
  const file = own === undefined ? ":memory:" : `${own}.bench-${suffix()}`;
  const open = await databaseOpeners.sqlite();
  const scratch = open({ file, synchronous: await synchronousOf(db) });
  return {
    db: scratch,
    schema: undefined,
    name: `the file ${file}`,
    async drop() {
      await scratch.close();
      if (own !== undefined)
        for (const end of ["", "-wal", "-shm"]) await rm(`${file}${end}`, { force: true });
    },
  };
}

/** SQLite's numbers: 1 is normal, 2 is full. */
async function synchronousOf({ driver }: Database): Promise<"normal" | "full"> {
  const [row] = await run(driver, "pragma synchronous");
  return Number(row?.synchronous) === 2 ? "full" : "normal";
}

async function scratchSchema(db: Database, schema: string): Promise<ScratchDatabase> {
  const { driver } = db;
  if (!/^[a-z]\w{0,62}$/i.test(schema))
    throw new UsageError(
      "--schema must begin with a letter, and have up to 63 letters, digits and underscores.",
    );
  const known = `select schema_name as name from information_schema.schemata where lower(schema_name) = '${schema.toLowerCase()}'`;
  if ((await run(driver, known)).length > 0) throw new UsageError(exists(schema, db));
  // Without "if not exists": another process may have made it since, and a user may not see it.
  await run(driver, `create schema ${quotedIn(db, schema)}`);
  return { db, schema, name: `the schema ${schema}`, drop: () => dropSchema(db, schema) };
}

const exists = (schema: string, { id }: Database): string =>
  `The schema ${schema} exists in ${id}. bench uses only a schema that it makes itself, and drops it: name another one.`;

const quotedIn = ({ dialect }: Database, name: string): string =>
  dialect.name === "postgres" ? `"${name}"` : `[${name}]`;

const run = (driver: SqlQueryable, text: string) =>
  driver.query({ name: "bench schema", text, unprepared: true }, {});

/** Drops a schema and everything in it. */
export async function dropSchema(db: Database, schema: string): Promise<void> {
  const { driver, dialect } = db;
  if (dialect.name === "postgres") await run(driver, `drop schema if exists ${quotedIn(db, schema)} cascade`);
  else for (const text of await sqlServerDrops(driver, schema)) await run(driver, text);
}

const dropWords = {
  P: "procedure",
  FN: "function",
  IF: "function",
  TF: "function",
  V: "view",
  U: "table",
} as const;

/** SQL Server drops a schema only when it is empty: procedures, functions and views first, then the tables, then itself. */
async function sqlServerDrops(driver: SqlQueryable, schema: string): Promise<readonly string[]> {
  const rows = await run(
    driver,
    `select rtrim(o.type) as type, o.name as name
from sys.objects o
inner join sys.schemas s on s.schema_id = o.schema_id
where s.name = '${schema}' and o.type in ('P', 'FN', 'IF', 'TF', 'V', 'U')
order by o.object_id desc`, // the newest first: a view on another one goes before it
  );
  const drops = Object.entries(dropWords).flatMap(([type, word]) =>
    rows.filter((row) => row.type === type).map((row) => `drop ${word} [${schema}].[${String(row.name)}]`),
  );
  return [...drops, `drop schema if exists [${schema}]`];
}
