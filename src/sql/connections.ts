import { requirePackage } from "../base/require-package.js";
import { abortable } from "../base/timers.js";
import { DriverMissingError, InvalidOperationError } from "../errors.js";
import { asTransaction, type SqlExecutor, type SqlQueryable } from "./driver.js";

/**
 * An executor that works until its transaction ends. Code that a failed `Promise.all` left running would otherwise write
 * outside of the transaction, or into the next one on the same connection.
 */
export function transactionScope(inner: SqlQueryable & { readonly pipelines?: boolean }): {
  readonly tx: SqlExecutor;
  end(): void;
} {
  let ended = false;
  return {
    tx: asTransaction({
      pipelines: inner.pipelines ?? false,
      async query(statement, params, options) {
        if (ended) throw endedError();
        return inner.query(statement, params, options);
      },
    }),
    end() {
      ended = true;
    },
  };
}

/** Of a caller's transaction it is not always known whether it ever began. */
export const endedError = (cause?: unknown): InvalidOperationError =>
  new InvalidOperationError(
    "This transaction has ended, or never began: no statement can run in it, and nothing was written.",
    cause === undefined ? {} : { cause },
  );

export const closedError = (): InvalidOperationError => new InvalidOperationError("The database was closed.");

/**
 * Limits how many transactions are open at once. One connection is kept for statements outside of them: renewals of leases
 * and acknowledgements would otherwise wait for the handlers of these same messages.
 */
export const transactionSlots = (connections: number): Slots => slots(Math.max(1, connections - 1));

interface Slots {
  /** Takes a slot if one is free. Returns the function that gives it back. */
  tryTake(): (() => void) | undefined;
  /** Waits until a slot is free. Returns the function that gives it back. */
  take(signal?: AbortSignal): Promise<() => void>;
}

export function slots(count: number): Slots {
  let free = count;
  const waiting: (() => void)[] = [];
  const release = (): void => {
    const next = waiting.shift();
    if (next === undefined) free++;
    else next();
  };
  const once = (): (() => void) => {
    let given = false;
    return () => {
      if (!given) release();
      given = true;
    };
  };
  const tryTake = (): (() => void) | undefined => {
    if (free === 0) return undefined;
    free--;
    return once();
  };
  return {
    tryTake,
    async take(signal) {
      const taken = tryTake();
      if (taken !== undefined) return taken;
      await abortable(new Promise<void>((resolve) => waiting.push(resolve)), signal, { late: release });
      return once();
    },
  };
}

/** The connections of one instance at most, unless `maxConnections` says otherwise. The guides calculate with it. */
export const defaultConnections = 4;

/** Refuses to open a database without its driver, so that an app learns of it when it starts. The first query loads the driver. */
export const requireDriver = (driver: string, database: string): void =>
  requirePackage(driver, database, (...missing) => new DriverMissingError(...missing));
