import { constants } from "node:fs";
import { access, open } from "node:fs/promises";
import { dirname } from "node:path";
import type { Database, Dialect } from "../dialect.js";
import { asTransaction, type SqlDriver, sqliteFileOf, statement } from "../driver.js";
import type { InspectedFile, Inspection, WrongSetting } from "../inspection.js";
import { loadSqlite } from "./client.js";
import { damagedError, isDamaged, isNameTaken, statementsOn } from "./connection.js";
import { keyStatements } from "./keys.js";
import { inboxStatements, outboxStatements, pollStatement } from "./queue.js";
import { sqliteReceiving } from "./receive.js";
import { ledger, migrations, routines, sentView } from "./schema.js";

/** The header's two version numbers are 2 in WAL mode. */
async function isWal(file: string): Promise<boolean> {
  const handle = await open(file);
  try {
    const { buffer } = await handle.read(Buffer.alloc(2), 0, 2, 18);
    return buffer[0] === 2 && buffer[1] === 2;
  } finally {
    await handle.close();
  }
}

const isWritable = (path: string): Promise<boolean> =>
  access(path, constants.W_OK).then(
    () => true,
    () => false,
  );

async function wrongAccess(file: string): Promise<readonly WrongSetting[]> {
  const wrong: WrongSetting[] = [];
  for (const path of [file, dirname(file)])
    if (!(await isWritable(path)))
      wrong.push({
        message: `This user may not write ${path}. Messages are stored in the file, and SQLite creates two more in its folder.`,
        run: `chmod u+w "${path}"`,
        tolerable: false,
      });
  return wrong;
}

/** The driver of `openSqlite` would change the journal mode. */
async function readOnly(db: Database, file: string): Promise<Database> {
  const DatabaseSync = await loadSqlite();
  const handle = new DatabaseSync(file, { readOnly: true });
  const run = statementsOn(handle);
  const driver: SqlDriver = {
    async query(text, params) {
      try {
        return run(text, params);
      } catch (error) {
        throw isDamaged(error) ? damagedError(file, (error as Error).message, error) : error;
      }
    },
    transaction: (work) => work(asTransaction(driver)),
    close: async () => handle.close(),
  };
  return { ...db, driver, close: () => driver.close() };
}

async function inspectFile(db: Database): Promise<InspectedFile> {
  const file = sqliteFileOf(db);
  if (file === undefined) return { wrong: [], db };
  const wrong = await wrongAccess(file);
  if (await isWal(file)) return { wrong, db };
  const journal: WrongSetting = {
    message: `${file} is not in WAL mode, so readers and writers wait for each other. oncebox sets the mode when it opens a file.`,
    run: `sqlite3 "${file}" "pragma journal_mode = wal"`,
    tolerable: false,
  };
  return { wrong: [...wrong, journal], db: await readOnly(db, file) };
}

const inspection: Inspection = {
  isName: (live, given) => live === given,
  objects: statement(
    "inspect objects",
    "select type as kind, name, sql as text from sqlite_master where :schema is not null",
  ),
  columns: statement(
    "inspect columns",
    `select m.name as table_name, c.name as name
from sqlite_master m, pragma_table_info(m.name) c
where m.type = 'table' and :schema is not null`,
  ),
  clock: undefined,
  user: undefined,
  privileges: undefined,
  needed: () => [],
  grant: () => "",
  settings: undefined,
  wrongSettings: () => [],
  file: inspectFile,
};

/** SQLite, as data. */
export const sqliteDialect: Dialect<"sqlite"> = {
  ...sqliteReceiving,
  inbox: inboxStatements,
  outbox: outboxStatements,
  keys: keyStatements,
  pollStatement,
  migrations,
  routines,
  sentView,
  ledger,
  inspection,
  isNameTaken,
  idempotencyLock: undefined, // one writer at a time is lock enough
  batchSeparator: ";\n",
  fromTime: (value) => new Date(Number(value)),
};
