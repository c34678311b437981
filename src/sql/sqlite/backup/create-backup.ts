import { createHash } from "node:crypto";
import { mkdir, readdir, realpath, rm, stat } from "node:fs/promises";
import { join, parse } from "node:path";
import { type Repeating, repeating } from "../../../base/async.js";
import { type LoggerOption, loggerOf, safeReason } from "../../../base/logger.js";
import { InvalidArgumentError, InvalidOperationError } from "../../../errors.js";
import { optionalAge, refuseUnknown, requireInterval } from "../../../queue/arguments.js";
import { type BackupSource, whyNotBackedUp } from "../../backup-source.js";
import { sqliteFileOf } from "../../driver.js";
import { copyDatabase, partialEnding, removeDatabase } from "./copy-database.js";

/** Options of a back-up. */
export interface BackupOptions {
  /** The folder of the back-ups. It is created. */
  readonly to: string;
  /** How long a back-up is kept: 7 days by default. The newest one is never deleted. */
  readonly keepMs?: number;
  /** Between two back-ups after `start`: 1 hour by default. */
  readonly everyMs?: number;
  readonly logger?: LoggerOption;
  /** For tests. */
  readonly clock?: () => Date;
}

/** What a back-up did. */
export interface BackupReport {
  readonly made: readonly MadeBackup[];
  readonly failed: readonly { readonly database: string; readonly error: Error }[];
}

/** A back-up that was made. */
export interface MadeBackup {
  readonly database: string;
  readonly file: string;
  readonly bytes: number;
  /** The paths of the back-ups that were older than `keepMs`. */
  readonly deleted: readonly string[];
}

/** Backs up SQLite databases, once or at regular intervals. */
export interface Backup {
  /** Backs up every database now, one after the other. One that fails is in the report and does not stop the others. */
  run(options?: { readonly signal?: AbortSignal }): Promise<BackupReport>;
  /** Backs up at regular intervals. The first back-up is made when the newest one that exists is old enough. */
  start(): void;
  /** Aborts a back-up that is being made. Resolves when nothing runs any more. */
  stop(): Promise<void>;
}

const defaults = { keepMs: 7 * 24 * 3_600_000, everyMs: 3_600_000, clock: () => new Date() } as const;
const known = [...Object.keys(defaults), "to", "logger"];

/** After a failed back-up the next one does not wait for an hour. */
const retryMs = 60_000;

/**
 * Online back-ups of SQLite databases, made while others write to them. Give every file: an inbox and an outbox in files
 * of their own are two databases. A function is called before each back-up, for tenants that come and go.
 *
 * @example
 * const backup = createBackup([db], { to: "backups" });
 * backup.start(); // every hour, kept for 7 days
 */
export function createBackup(
  databases: readonly BackupSource[] | (() => Promise<readonly BackupSource[]>),
  options: BackupOptions,
): Backup {
  refuseUnknown(options, known, "createBackup");
  const { to, keepMs, everyMs, clock } = { ...defaults, ...options };
  if (typeof to !== "string" || to === "") throw new InvalidArgumentError("createBackup: to must be a path.");
  optionalAge(keepMs, "createBackup: keepMs");
  requireInterval(everyMs, "createBackup: everyMs");
  if (typeof databases !== "function") requireSqlite(databases);
  const logger = loggerOf(options.logger);
  let running: Repeating | undefined;

  const current = async (): Promise<readonly BackupSource[]> => {
    if (typeof databases !== "function") return databases;
    const found = await databases();
    requireSqlite(found);
    return found;
  };

  const backUp = async (database: BackupSource, signal: AbortSignal | undefined): Promise<MadeBackup> => {
    const time = clock();
    const { from, files } = await filesOf(database, to);
    await mkdir(to, { recursive: true });
    const file = files.pathAt(time);
    const bytes = await copyDatabase({ from, to: file, check: "quick_check", signal });
    const deleted = await files.deleteBefore(time.getTime() - keepMs);
    logger.info("back-up made", { database: database.id, file, bytes, deleted: deleted.length });
    return { database: database.id, file, bytes, deleted };
  };

  const run = async ({ signal }: { readonly signal?: AbortSignal } = {}): Promise<BackupReport> => {
    const made: MadeBackup[] = [];
    const failed: { database: string; error: Error }[] = [];
    for (const database of await current()) {
      signal?.throwIfAborted();
      try {
        made.push(await backUp(database, signal));
      } catch (error) {
        signal?.throwIfAborted();
        logger.error("back-up failed", { database: database.id, error: safeReason(error) });
        failed.push({ database: database.id, error: error as Error });
      }
    }
    return { made, failed };
  };

  /** How long the database whose newest back-up is the oldest can still wait. */
  const untilDue = async (): Promise<number> => {
    let waitMs = everyMs;
    for (const database of await current()) {
      const newest = await (await filesOf(database, to)).files.newest();
      const dueInMs = newest === undefined ? 0 : newest + everyMs - clock().getTime();
      waitMs = Math.max(0, Math.min(waitMs, dueInMs));
    }
    return waitMs;
  };

  /** Backs up, and returns how long the next back-up waits. */
  const runUntilNext = async (signal: AbortSignal): Promise<number> => {
    const { failed } = await run({ signal });
    return failed.length === 0 ? everyMs : Math.min(everyMs, retryMs);
  };

  /** The first time, it only looks when a back-up is due. */
  const backUpRepeatedly = (): Repeating => {
    let next: typeof runUntilNext = untilDue;
    let waitMs = everyMs;
    const job = async (signal: AbortSignal): Promise<void> => {
      try {
        waitMs = await next(signal);
      } catch (error) {
        if (!signal.aborted) logger.error("back-up failed", { error: safeReason(error) });
        waitMs = Math.min(everyMs, retryMs);
      }
      next = runUntilNext;
    };
    return repeating(() => waitMs, job);
  };

  return {
    run,
    start() {
      running ??= backUpRepeatedly();
    },
    async stop() {
      await running?.stop();
      running = undefined;
    },
  };
}

function requireSqlite(databases: readonly BackupSource[]): void {
  const isList = Array.isArray(databases) && databases.every((one) => typeof one?.id === "string");
  if (!isList) throw new InvalidArgumentError("createBackup: give an array of databases: [openSqlite(…)].");
  const reasons = databases.flatMap((database) => whyNotBackedUp(database) ?? []);
  if (reasons.length > 0) throw new InvalidArgumentError(`createBackup: ${reasons.join(" ")}`);
}

async function filesOf(
  database: BackupSource,
  to: string,
): Promise<{ readonly from: string; readonly files: BackupFiles }> {
  const file = sqliteFileOf(database)!;
  const from = await realpath(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
    throw new InvalidOperationError(`There is no file ${file} to back up.`, { cause: error });
  });
  return { from, files: backupFiles(from, to) };
}

/** The back-ups of one database in one folder. */
interface BackupFiles {
  /** Where a back-up that begins at this time is written. */
  pathAt(time: Date): string;
  /** The time of the newest one, in milliseconds; undefined when there is none. */
  newest(): Promise<number | undefined>;
  /** Deletes those from before this time, except the newest, and returns their paths. */
  deleteBefore(time: number): Promise<readonly string[]>;
}

/** A back-up writes all the time. What nobody has written to for this long belongs to a process that was killed. */
const partialAgeMs = 3_600_000;

/**
 * Back-ups are named `app.1f0c9a3e.20301231T235959999Z.db`: the database's name, a hash of its path, the time. The hash keeps
 * databases of the same name apart. A file with any other name is never touched.
 */
function backupFiles(database: string, folder: string): BackupFiles {
  const hash = createHash("sha256").update(database).digest("hex").slice(0, 8);
  const prefix = `${parse(database).name}.${hash}.`;

  /** From the newest to the oldest. */
  const made = async (): Promise<{ readonly name: string; readonly time: number }[]> =>
    (await namesIn(folder))
      .flatMap((name) => {
        const time = name.startsWith(prefix) ? timeIn(name.slice(prefix.length)) : undefined;
        return time === undefined ? [] : { name, time };
      })
      .sort((a, b) => b.time - a.time);

  const deletePartials = async (): Promise<void> => {
    for (const name of await namesIn(folder)) {
      const [, whole] = partialName.exec(name.startsWith(prefix) ? name.slice(prefix.length) : "") ?? [];
      if (whole === undefined || timeIn(whole) === undefined) continue;
      const path = join(folder, name);
      if (Date.now() - (await stat(path)).mtimeMs > partialAgeMs) await removeDatabase(path);
    }
  };

  return {
    pathAt: (time) => join(folder, `${prefix}${time.toISOString().replaceAll(/[-:.]/g, "")}.db`),
    newest: async () => (await made())[0]?.time,
    async deleteBefore(time) {
      const [, ...older] = await made();
      const paths = older.filter((one) => one.time < time).map(({ name }) => join(folder, name));
      for (const path of paths) await rm(path, { force: true });
      await deletePartials();
      return paths;
    },
  };
}

const partialName = new RegExp(`^(.*)\\.[0-9a-f]{8}\\${partialEnding}$`);

async function namesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}

function timeIn(text: string): number | undefined {
  const [, ...parts] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z\.db$/.exec(text) ?? [];
  if (parts.length === 0) return undefined;
  const [year, month, day, hour, minute, second, ms] = parts;
  const time = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}.${ms}Z`);
  return Number.isNaN(time) ? undefined : time;
}
