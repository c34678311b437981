import { randomBytes } from "node:crypto";
import { chmod, open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { InvalidOperationError } from "../../../errors.js";
import { loadSqliteModule, type SqliteHandle, type SqliteModule } from "../client.js";
import { damagedError, isDamaged, whenFree } from "../connection.js";

interface CopyOptions {
  readonly from: string;
  readonly to: string;
  readonly check: IntegrityCheck;
  readonly signal?: AbortSignal | undefined;
  /** Runs when the copy is complete and checked, before it gets its name. */
  readonly beforeNamed?: () => Promise<void>;
}

/** How the name of a copy ends that is not complete. */
export const partialEnding = ".partial";

/** Files that SQLite writes beside a database. */
export const sideFiles = ["-wal", "-shm", "-journal"] as const;

/**
 * Copies a database while others write to it. The copy is one file with no side files. It gets its name when it is
 * complete, checked and on the disk; until then, and after a failure, nothing has that name. Returns its size.
 */
export async function copyDatabase(options: CopyOptions): Promise<number> {
  const { from, to, signal } = options;
  signal?.throwIfAborted();
  const partial = `${to}.${randomBytes(4).toString("hex")}${partialEnding}`;
  try {
    return await copyAndName(options, partial);
  } catch (error) {
    await removeDatabase(partial);
    signal?.throwIfAborted();
    if (error instanceof InvalidOperationError) throw error;
    const { message } = error as Error;
    if (isDamaged(error)) throw damagedError(from, message, error);
    throw new InvalidOperationError(`${from} could not be copied to ${to}: ${message}`, { cause: error });
  }
}

async function copyAndName(
  { from, to, check, signal, beforeNamed }: CopyOptions,
  partial: string,
): Promise<number> {
  const sqlite = await loadSqliteModule();
  const { mode, size } = await stat(from);
  if (size === 0) throw new InvalidOperationError(`${from} is empty: there is no database in it.`);
  await (await open(partial, "wx", 0o600)).close(); // nobody else may read it before it has the mode of the original
  await withHandle(new sqlite.DatabaseSync(from, { readOnly: true }), (source) =>
    copyInto(source, sqlite.backup, partial, signal),
  );
  await withHandle(new sqlite.DatabaseSync(partial), async (copy) => {
    copy.exec("pragma journal_mode = delete"); // in WAL mode every reader would need side files
    checkDatabase(copy, check, from);
  });
  signal?.throwIfAborted();
  await chmod(partial, mode & 0o777);
  await flush(partial);
  await beforeNamed?.();
  await rename(partial, to);
  await flush(dirname(to)).catch(() => {}); // Windows cannot flush a folder
  return (await stat(to)).size;
}

async function withHandle(
  handle: SqliteHandle,
  work: (handle: SqliteHandle) => Promise<void>,
): Promise<void> {
  try {
    await work(handle);
  } finally {
    handle.close();
  }
}

/** 4 MB with SQLite's default page size. An abort is noticed between two steps. */
const pagesPerStep = 1_000;

/**
 * One read transaction around the whole copy. Without it SQLite would begin again after each commit of another process,
 * and would not come to an end while others write.
 */
export async function copyInto(
  source: SqliteHandle,
  backup: SqliteModule["backup"],
  to: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (backup === undefined) {
    await whenFree(() => source.exec(`vacuum into '${to.replaceAll("'", "''")}'`), signal); // Node 22.13 to 22.15
    return;
  }
  source.exec("begin");
  await whenFree(() => source.exec("select 1 from sqlite_master"), signal); // the transaction begins with its first read
  await backup(source, to, { rate: pagesPerStep, progress: () => signal?.throwIfAborted() });
  source.exec("rollback");
}

async function flush(path: string): Promise<void> {
  const opened = await open(path, "r");
  try {
    await opened.sync();
  } finally {
    await opened.close();
  }
}

export async function removeDatabase(file: string): Promise<void> {
  for (const ending of ["", ...sideFiles]) await rm(`${file}${ending}`, { force: true });
}

/** `quick_check` reads every page; `integrity_check` also compares each index with its table. */
type IntegrityCheck = "quick_check" | "integrity_check";

/**
 * Refuses a damaged database. A function collects the rows, because a prepared statement would keep the file open after
 * `close` with the SQLite package for Node 20, and Windows renames no open file.
 */
function checkDatabase(handle: SqliteHandle, check: IntegrityCheck, file: string): void {
  const found: string[] = [];
  handle.function("oncebox_found", (text) => {
    found.push(String(text));
    return null;
  });
  try {
    handle.exec(`select oncebox_found(${check}) from pragma_${check}`);
  } catch (error) {
    if (found.length === 0) throw error; // after the last row SQLite reports the damage once more, without the place
  }
  if (found.length === 1 && found[0] === "ok") return;
  throw damagedError(file, (found[0] ?? "the check returned nothing").replaceAll("\n", "; ").slice(0, 300));
}
