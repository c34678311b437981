import type { Fault } from "../transient-retry.js";

/** The codes of SQLITE_BUSY and SQLITE_LOCKED: another connection has the lock. */
const busyCodes = [5, 6];

/** Bindings report the code as a number (`errcode`, with extended codes above the low byte), as a name, or in the message. */
export function isBusy(error: unknown): boolean {
  const { errcode, code, message } = (error ?? {}) as { errcode?: number; code?: string; message?: string };
  return (
    (errcode !== undefined && busyCodes.includes(errcode & 0xff)) ||
    /^SQLITE_(BUSY|LOCKED)/.test(code ?? "") ||
    /database (table )?is locked/.test(message ?? "")
  );
}

export const classify = (error: unknown): Fault => (isBusy(error) ? "rolledBack" : "permanent");

export const isSchemaMissing = (error: unknown): boolean =>
  /no such (table|column)/.test((error as Error | undefined)?.message ?? "");

export const isNameTaken = (error: unknown): boolean =>
  /already exists|there is already an? \w+ named|use DROP \w+ to delete/.test(
    (error as Error | undefined)?.message ?? "",
  );
