import { isBuiltin } from "node:module";
import { InvalidArgumentError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import type { ReceivingDatabase } from "../dialect.js";
import { requireDriver } from "../driver.js";
import { type Synchronous, sqliteClient } from "./client.js";
import { sqliteReceiving } from "./receive.js";

/** Where a SQLite database is. */
export interface SqliteOptions {
  /** A path, or ":memory:". */
  readonly file: string;
  /** `normal` (the default) survives a crash of the process, `full` also one of the machine. */
  readonly synchronous?: Synchronous;
}

/** For functions that only receive: without the rest of the dialect. */
export function connectSqlite(options: SqliteOptions): ReceivingDatabase<"sqlite"> {
  refuseUnknown(options, ["file", "synchronous"], "openSqlite");
  if (typeof options.file !== "string" || options.file === "") {
    throw new InvalidArgumentError('openSqlite: file must be a path or ":memory:".');
  }
  const synchronous = options.synchronous ?? "normal";
  if (synchronous !== "normal" && synchronous !== "full") {
    throw new InvalidArgumentError('openSqlite: synchronous must be "normal" or "full".');
  }
  if (!isBuiltin("node:sqlite")) requireDriver("@photostructure/sqlite", "SQLite on Node before 22.13");
  const driver = sqliteClient({ file: options.file, synchronous });
  return {
    dialect: sqliteReceiving,
    driver,
    id: `sqlite:${options.file}`,
    close: () => driver.close(),
  };
}
