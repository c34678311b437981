import { setTimeout as sleep } from "node:timers/promises";
import type { Budget } from "../../base/budget.js";
import type { Logger } from "../../base/logger.js";
import { safeReason } from "../../base/safe-reason.js";
import { ArgumentRangeError } from "../../errors.js";
import { requireDuration } from "../../queue/arguments.js";
import type { TenantRunResult } from "../scheduling/run-tenants.js";
import type { FanOut, TenantBatch } from "./tenant-batch.js";

export interface FanOutJobOptions<Report extends TenantRunResult> {
  /** What a share of it says; undefined for dispatching. */
  readonly job?: TenantBatch["job"];
  /** Does it for the tenants of a share. */
  readonly run: (budget: Budget, share: TenantBatch) => Promise<Report>;
  /** What a timer reports that only hands out. */
  readonly nothing: Report;
  /** Whether a run got something done, though it may have reached the end of nobody's work. */
  readonly hasDone: (report: Report) => boolean;
  readonly distinctStores: () => Promise<readonly string[]>;
  readonly fanOut: FanOut;
  readonly tenantBatchSize: number;
  /** How often its timer comes. */
  readonly periodMs: number;
  readonly logger: Logger;
  readonly now: () => number;
  readonly random: () => number;
}

export interface FanOutJob<Report extends TenantRunResult> {
  /** What the timer starts. */
  start(budget: Budget): Promise<Report & HandedOut>;
  /** What a worker does with its share; what it did not reach it hands on. */
  work(share: TenantBatch, budget: Budget): Promise<Report & HandedOut>;
}

export interface HandedOut {
  /** Shares given to others. */
  readonly handedOut: number;
}

/** A storage queue's message has 64 KB, of which base64 leaves three quarters. */
const longestBatchBytes = 40_000;
/** Calls of a cloud at once. */
const sendersAtOnce = 10;
/** The function has to answer, too. */
const answerMs = 50;

/**
 * A job for thousands of tenants through the platform: the timer lists them and hands out shares. A share that gets
 * lost, or that could not be sent, is made again by the next timer.
 */
export function fanOutJob<Report extends TenantRunResult>(
  options: FanOutJobOptions<Report>,
): FanOutJob<Report> {
  const { fanOut, tenantBatchSize, logger, now, random } = options;
  const job = options.job === undefined ? {} : { job: options.job };
  requireTenantBatchSize(tenantBatchSize);
  requireDuration(options.periodMs, "periodMs");

  /** Within the time that is left: a share that was not sent is made by the next timer, one that is killed tells nobody. */
  const handOut = async (ids: readonly string[], until: number, budget: Budget): Promise<number> => {
    const shares = splitIntoBatches(ids, tenantBatchSize);
    const hasTime = () => budget.remainingMs() > answerMs;
    let next = 0;
    let sent = 0;
    const sender = async (): Promise<void> => {
      while (next < shares.length && hasTime()) {
        const share = shares[next++]!;
        try {
          await fanOut.send({ tenants: share, until, ...job });
          sent++;
        } catch (error) {
          // The next timer makes it again.
          logger.error("a share of tenants was not handed out", {
            tenants: share.length,
            reason: safeReason(error),
          });
        }
      }
    };
    const senders = Array.from({ length: Math.min(sendersAtOnce, shares.length) }, sender);
    const isInTime = await endsWithin(budget.remainingMs() - answerMs, Promise.all(senders));
    if (!isInTime || next < shares.length)
      logger.warn("shares of tenants were not handed out in time", { shares: shares.length - sent });
    return sent;
  };

  /** Work that a whole run could not move would be handed on for ever; it is left to the timer. */
  const hasProgressed = (report: Report, share: TenantBatch): boolean =>
    report.left.length < share.tenants.length || options.hasDone(report);

  const work: FanOutJob<Report>["work"] = async (share, budget) => {
    // Timers add shares whether workers keep up or not: what the next one has made anew would only hold up those.
    if (options.job === undefined && now() >= share.until) {
      logger.warn("a share of tenants came too late; the next timer has made it anew", {
        tenants: share.tenants.length,
      });
      return { ...options.nothing, handedOut: 0 };
    }
    const runMs = budget.remainingMs();
    // A run that has used half of its time is likely to use all of it.
    const halfTime = Number.isFinite(runMs) ? setTimeout(() => fanOut.prepare?.(), runMs / 2) : undefined;
    const report = await options.run(timeToHandOn(budget), share).finally(() => clearTimeout(halfTime));
    const handsOn = report.left.length > 0 && now() < share.until && hasProgressed(report, share);
    return { ...report, handedOut: handsOn ? await handOut(report.left, share.until, budget) : 0 };
  };

  return {
    work,
    async start(budget) {
      const ids = await options.distinctStores();
      const until = now() + options.periodMs;
      if (ids.length <= tenantBatchSize) return work({ tenants: ids, until, ...job }, budget);
      // In a new order each time: tenants that are slow together today are apart tomorrow.
      const keyed = ids.map((id) => [random(), id] as const).sort(([a], [b]) => a - b);
      const handedOut = await handOut(
        keyed.map(([, id]) => id),
        until,
        budget,
      );
      return { ...options.nothing, handedOut };
    },
  };
}

export function requireTenantBatchSize(tenantBatchSize: number): void {
  if (!Number.isInteger(tenantBatchSize) || tenantBatchSize < 1) {
    throw new ArgumentRangeError("tenantBatchSize must be a whole number from 1 on.");
  }
}

/** What is kept for handing on what was not reached: a tenth of the time, and at most two seconds. */
function timeToHandOn(budget: Budget): Budget {
  const keptMs = Math.min(budget.remainingMs() / 10, 2_000);
  return { signal: budget.signal, remainingMs: () => Math.max(0, budget.remainingMs() - keptMs) };
}

async function endsWithin(ms: number, work: Promise<unknown>): Promise<boolean> {
  if (!Number.isFinite(ms)) return work.then(() => true);
  const over = new AbortController();
  const late = sleep(Math.max(0, ms), false, { signal: over.signal });
  late.catch(() => {}); // nobody waits for it any more
  return Promise.race([work.then(() => true), late]).finally(() => over.abort());
}

/** In even shares, none above the size, none longer than a message may be. */
export function splitIntoBatches(ids: readonly string[], size: number): readonly (readonly string[])[] {
  const even = Math.ceil(ids.length / Math.ceil(ids.length / size));
  const shares: string[][] = [];
  let bytes = longestBatchBytes;
  for (const id of ids) {
    const own = Buffer.byteLength(JSON.stringify(id)) + 1;
    let share = shares.at(-1);
    if (share === undefined || share.length >= even || bytes + own > longestBatchBytes) {
      share = [];
      shares.push(share);
      bytes = 0;
    }
    share.push(id);
    bytes += own;
  }
  return shares;
}
