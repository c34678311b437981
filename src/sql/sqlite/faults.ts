import { sleep } from "../../base/timers.js";
import { InvalidOperationError } from "../../errors.js";
import type { Fault } from "../driver.js";

/** The codes of SQLITE_BUSY and SQLITE_LOCKED: another connection has the lock. */
const busyCodes = [5, 6];

/** The codes of SQLITE_CORRUPT and SQLITE_NOTADB. */
const damagedCodes = [11, 26];

/** Bindings report the code as a number (`errcode`, with extended codes above the low byte), as a name, or in the message. */
function hasCode(error: unknown, codes: readonly number[], name: RegExp, words: RegExp): boolean {
  const { errcode, code, message } = (error ?? {}) as { errcode?: number; code?: string; message?: string };
  return (
    (errcode !== undefined && codes.includes(errcode & 0xff)) ||
    name.test(code ?? "") ||
    words.test(message ?? "")
  );
}

export const isBusy = (error: unknown): boolean =>
  hasCode(error, busyCodes, /^SQLITE_(BUSY|LOCKED)/, /database (table )?is locked/);

/** Bytes of the file are not what SQLite wrote. */
export const isDamaged = (error: unknown): boolean =>
  hasCode(
    error,
    damagedCodes,
    /^SQLITE_(CORRUPT|NOTADB)/,
    /^(database disk image is malformed|file is not a database)/,
  );

export const damagedError = (file: string, detail: string, cause?: unknown): InvalidOperationError =>
  new InvalidOperationError(
    `The SQLite file ${file} is damaged: ${detail}. Stop the processes that use it, and restore it from a back-up: oncebox restore --from BACKUP --to ${file} --force`,
    { cause },
  );

export const classify = (error: unknown): Fault => (isBusy(error) ? "rolledBack" : "permanent");

export const isSchemaMissing = (error: unknown): boolean =>
  /no such (table|column)/.test((error as Error | undefined)?.message ?? "");

export const isNameTaken = (error: unknown): boolean =>
  /already exists|there is already an? \w+ named|use DROP \w+ to delete/.test(
    (error as Error | undefined)?.message ?? "",
  );

/** How long to wait for another writer. SQLite's documentation recommends a busy_timeout of 5 s. */
const busyTimeoutMs = 5_000;
const longestBusyWaitMs = 50;

/**
 * Tries again while another connection has the lock. SQLite's own `busy_timeout` would block the thread, and the other
 * connection may need that thread to commit.
 */
export async function whenFree<T>(work: () => T, signal?: AbortSignal): Promise<T> {
  let giveUpAt: number | undefined;
  for (let waitMs = 1; ; waitMs = Math.min(waitMs * 2, longestBusyWaitMs)) {
    signal?.throwIfAborted();
    try {
      return work();
    } catch (error) {
      giveUpAt ??= performance.now() + busyTimeoutMs;
      if (!isBusy(error) || performance.now() > giveUpAt) throw error;
    }
    await sleep(waitMs * (0.5 + Math.random()));
  }
}
