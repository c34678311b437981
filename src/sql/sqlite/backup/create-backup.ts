import { mkdir, realpath } from "node:fs/promises";
import { type LoggerOption, loggerOf } from "../../../base/logger.js";
import { type Repeating, repeating } from "../../../base/repeating.js";
import { safeReason } from "../../../base/safe-reason.js";
import { InvalidArgumentError, InvalidOperationError } from "../../../errors.js";
import { optionalAge, refuseUnknown, requireInterval } from "../../../queue/arguments.js";
import { sqliteFileOf } from "../../sqlite-file-of.js";
import { type BackupSource, whyNotBackedUp } from "../../why-not-backed-up.js";

import { type BackupFiles, backupFiles } from "./backup-files.js";
import { copyDatabase } from "./copy-database.js";

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

export interface BackupReport {
  readonly made: readonly MadeBackup[];
  readonly failed: readonly { readonly database: string; readonly error: Error }[];
}

export interface MadeBackup {
  readonly database: string;
  readonly file: string;
  readonly bytes: number;
  /** The paths of the back-ups that were older than `keepMs`. */
  readonly deleted: readonly string[];
}

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
