import { existsSync } from "node:fs";
import { mkdir, realpath, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { InvalidArgumentError, InvalidOperationError } from "../../../errors.js";
import { refuseUnknown } from "../../../queue/arguments.js";
import { loadSqlite } from "../client.js";
import { isBusy, isDamaged } from "../connection.js";
import { copyDatabase, sideFiles } from "./copy-database.js";

/** Options of a restore. */
export interface RestoreOptions {
  /** The back-up. */
  readonly from: string;
  /** The database's file. */
  readonly to: string;
  /** Replaces a file that exists. It is kept under another name. */
  readonly force?: boolean;
}

/** What a restore did. */
export interface RestoreResult {
  readonly file: string;
  readonly bytes: number;
  /** Where the replaced database is now; undefined when there was none. */
  readonly replaced: string | undefined;
  /** The replaced file was so damaged that SQLite could not say whether a process used it. */
  readonly useUnknown: boolean;
}

/**
 * Puts a back-up in the place of a database that no process uses. The back-up is checked first. What was at `to` is
 * moved aside with its WAL, so that nothing is lost by restoring the wrong one.
 */
export async function restoreBackup(options: RestoreOptions): Promise<RestoreResult> {
  refuseUnknown(options, ["from", "to", "force"], "restoreBackup");
  const { from, to, force = false } = options;
  if (![from, to].every((path) => typeof path === "string" && path !== ""))
    throw new InvalidArgumentError("restoreBackup: from and to must be paths.");
  if (!existsSync(from)) throw new InvalidOperationError(`There is no back-up ${from}.`);
  const exists = existsSync(to);
  if (exists && (await realpath(from)) === (await realpath(to)))
    throw new InvalidArgumentError(`restoreBackup: from and to are the same file, ${to}.`);
  if (exists && !force)
    throw new InvalidOperationError(
      `${to} exists and was not replaced. Give force (--force on the command line) to replace it; it is kept under another name.`,
    );
  const useUnknown = exists && (await usage(to)) === "unknown";
  await mkdir(dirname(to), { recursive: true });
  const aside = `${to}.replaced-${new Date().toISOString().replaceAll(/[-:.]/g, "")}`;
  const beforeNamed = async (): Promise<void> => {
    if (exists) await usage(to); // a process may have been started while the back-up was checked
    await moveAside(to, aside);
  };
  const bytes = await copyDatabase({ from, to, check: "integrity_check", beforeNamed });
  return { file: to, bytes, replaced: exists ? aside : undefined, useUnknown };
}

/** Every connection in WAL mode holds a shared lock for as long as it is open, so an exclusive one finds idle ones too. */
async function usage(file: string): Promise<"none" | "unknown"> {
  const DatabaseSync = await loadSqlite();
  const handle = new DatabaseSync(file);
  try {
    handle.exec("pragma busy_timeout = 0; pragma locking_mode = exclusive; begin exclusive; rollback");
    return "none";
  } catch (error) {
    if (isDamaged(error)) return "unknown";
    if (!isBusy(error)) throw error;
    throw new InvalidOperationError(
      `A process uses ${file}. Stop every process that has it open, and restore again.`,
      { cause: error },
    );
  } finally {
    handle.close();
  }
}

/** A side file of the old database would be applied to the new one. */
async function moveAside(file: string, aside: string): Promise<void> {
  for (const ending of ["", ...sideFiles])
    if (existsSync(`${file}${ending}`)) await rename(`${file}${ending}`, `${aside}${ending}`);
  await rm(`${aside}-shm`, { force: true }); // an index of the WAL, which SQLite makes anew
}
