import { repeating } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import { type LoggerOption, loggerOf, safeReason } from "../base/logger.js";
import { ArgumentRangeError, InvalidArgumentError } from "../errors.js";
import { refuseUnknown, requireDuration, requireInterval, requireList } from "../queue/arguments.js";
import { type Purging, purgeWithin } from "../queue/maintenance.js";
import {
  deadRetentionRule,
  isDeadRetention,
  type Retention,
  requireRetention,
  requireRetentions,
} from "../queue/retention.js";

/** Options of the clean-up. */
export interface CleanupOptions {
  /** Inboxes and outboxes. */
  readonly stores: readonly (Purging & { readonly id: string })[];
  /** 7 days by default. Keep ids for longer than your queue can deliver a message again. */
  readonly retentionMs?: number;
  /** Other retentions for some of the messages, such as `{ topic: "debug.*", retentionMs: 3_600_000 }`. The first that fits decides. */
  readonly retentions?: readonly Retention[];
  /** How long dead messages are kept after their death: a day at least. By default they are kept for ever. */
  readonly deadRetentionMs?: number;
  /** Of the records of operators' operations: 90 days by default. */
  readonly operationRetentionMs?: number;
  /** Time between two clean-ups: 1 minute by default. */
  readonly intervalMs?: number;
  /** Rows that one statement deletes. */
  readonly batchSize?: number;
  /** Aborting it stops the clean-up, as `stop` does. */
  readonly signal?: AbortSignal;
  readonly logger?: LoggerOption;
}

/** A clean-up that runs at regular intervals. */
export interface Cleanup {
  /** Resolves when no statement is running any more. */
  stop(): Promise<void>;
}

const known = [
  "stores",
  "retentionMs",
  "retentions",
  "deadRetentionMs",
  "operationRetentionMs",
  "intervalMs",
  "batchSize",
  "signal",
  "logger",
];
const week = 7 * 24 * 60 * 60 * 1_000;

/**
 * For a server: deletes messages that were done before the retention, at regular intervals and in short batches; with
 * `deadRetentionMs` also dead ones. The timer does not keep the process alive.
 *
 * @example
 * const cleanup = startCleanup({ stores: [createInbox(db), createOutbox(db)] });
 * process.once("SIGTERM", () => cleanup.stop());
 */
export function startCleanup(options: CleanupOptions): Cleanup {
  refuseUnknown(options ?? {}, known, "startCleanup");
  const {
    stores,
    retentionMs = week,
    retentions = [],
    deadRetentionMs,
    operationRetentionMs,
    intervalMs = 60_000,
    batchSize,
    signal,
  } = options;
  requireList(stores, "startCleanup: stores");
  if (stores.some((store) => typeof store?.purgeDone !== "function"))
    throw new InvalidArgumentError(
      "startCleanup: stores must be inboxes and outboxes: createInbox(db), createOutbox(db).",
    );
  requireRetention(retentionMs, "startCleanup: retentionMs");
  requireRetentions(retentions, "startCleanup: retentions");
  if (deadRetentionMs !== undefined && !isDeadRetention(deadRetentionMs))
    throw new ArgumentRangeError(`startCleanup: deadRetentionMs must be ${deadRetentionRule}.`);
  if (operationRetentionMs !== undefined)
    requireDuration(operationRetentionMs, "startCleanup: operationRetentionMs");
  requireInterval(intervalMs, "startCleanup: intervalMs");
  const logger = loggerOf(options.logger);
  const purge = {
    retentionMs,
    retentions,
    ...omitUndefined({ deadRetentionMs, operationRetentionMs, batchSize }),
  };
  const cleanUp = async (stopped: AbortSignal): Promise<void> => {
    for (const store of stores) {
      try {
        await purgeWithin(store, { signal: stopped, remainingMs: () => Number.POSITIVE_INFINITY }, purge);
      } catch (error) {
        if (!stopped.aborted) logger.error("clean-up failed", { store: store.id, error: safeReason(error) });
      }
    }
  };
  return repeating(intervalMs, cleanUp, { signal, keepsAlive: false });
}
