import { setTimeout as sleep } from "node:timers/promises";
import { ArgumentRangeError } from "../errors.js";
import type { Budget } from "../queue/budget.js";
import { guardedLogger, type Logger, silentLogger } from "../queue/logger.js";
import { safeReason } from "../queue/safe-reason.js";
import { joinedReports } from "./result-sum.js";
import type { FanOut, TenantShare } from "./share-message.js";
import type { TenantDispatcher, TenantDispatchReport } from "./tenant-dispatcher.js";

export interface FanOutOptions {
  readonly dispatcher: TenantDispatcher;
  readonly places: () => Promise<readonly string[]>;
  readonly fanOut: FanOut;
  /** Tenants in a share: 250 by default. No more than that, and the timer does them itself. */
  readonly shareSize?: number;
  /** How often the timer comes: 60 s by default. */
  readonly periodMs?: number;
  readonly logger?: Logger;
  /** For tests: milliseconds since 1970. */
  readonly now?: () => number;
  readonly random?: () => number;
}

export interface FanOutReport extends TenantDispatchReport {
  /** Shares given to others. */
  readonly handedOut: number;
}

export interface FanOutDispatcher {
  /** What the timer starts. */
  start(budget: Budget): Promise<FanOutReport>;
  /** What a worker does with its share; what it did not reach it hands on. */
  work(share: TenantShare, budget: Budget): Promise<FanOutReport>;
}

export const shareDefaults = { shareSize: 250, periodMs: 60_000 } as const;

/** A storage queue's message has 64 KB, of which base64 leaves three quarters. */
const longestShareBytes = 40_000;
/** Calls of a cloud at once. */
const sendersAtOnce = 10;

/**
 * Thousands of tenants through the platform: the timer lists them and hands out shares. A share that gets lost, or that
 * could not be sent, is made again by the next timer.
 */
export function createFanOutDispatcher(options: FanOutOptions): FanOutDispatcher {
  const { dispatcher, fanOut, now = Date.now, random = Math.random } = options;
  const { shareSize, periodMs } = { ...shareDefaults, ...options };
  if (!Number.isInteger(shareSize) || shareSize < 1) {
    throw new ArgumentRangeError("shareSize must be a whole number from 1 on.");
  }
  const logger = guardedLogger(options.logger ?? silentLogger);

  const handOut = async (ids: readonly string[], until: number): Promise<number> => {
    const shares = sharesOf(ids, shareSize);
    let next = 0;
    let sent = 0;
    const sender = async (): Promise<void> => {
      for (let share = shares[next++]; share !== undefined; share = shares[next++]) {
        try {
          await fanOut.send({ tenants: share, until });
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
    await Promise.all(Array.from({ length: Math.min(sendersAtOnce, shares.length) }, sender));
    return sent;
  };

  const work: FanOutDispatcher["work"] = async (share, budget) => {
    const report = await runShare(dispatcher, share, timeToHandOn(budget));
    const handsOn = report.left.length > 0 && now() < share.until && hasProgressed(report, share);
    return { ...report, handedOut: handsOn ? await handOut(report.left, share.until) : 0 };
  };

  return {
    work,
    async start(budget) {
      const ids = await options.places();
      const until = now() + periodMs;
      if (ids.length <= shareSize) return work({ tenants: ids, until }, budget);
      // In a new order each time: tenants that are slow together today are apart tomorrow.
      const keyed = ids.map((id) => [random(), id] as const).sort(([a], [b]) => a - b);
      const handedOut = await handOut(
        keyed.map(([, id]) => id),
        until,
      );
      return { inbox: null, outbox: null, turns: 0, failed: [], setAside: [], left: [], handedOut };
    },
  };
}

/** What is kept for handing on what was not reached: a tenth of the time, and at most two seconds. */
function timeToHandOn({ signal, remainingMs }: Budget): Budget {
  const keptMs = Math.min(remainingMs() / 10, 2_000);
  return { signal, remainingMs: () => Math.max(0, remainingMs() - keptMs) };
}

/** Longer than the interval in which webhooks of a burst wake nobody anew. */
const lookAgainMs = 500;

async function runShare(
  dispatcher: TenantDispatcher,
  { tenants, woken }: TenantShare,
  budget: Budget,
): Promise<TenantDispatchReport> {
  const report = await dispatcher.run(budget, tenants);
  if (!woken || report.left.length > 0 || budget.remainingMs() < 2 * lookAgainMs) return report;
  const waited = await sleep(lookAgainMs, true, { signal: budget.signal }).catch(() => false);
  return waited ? joinedReports(report, await dispatcher.run(budget, tenants)) : report;
}

/** Work that a whole run could not move would be handed on for ever; it is left to the timer. */
const hasProgressed = ({ left, inbox, outbox }: TenantDispatchReport, share: TenantShare): boolean =>
  left.length < share.tenants.length ||
  [inbox, outbox].some((result) => result !== null && result.acked + result.abandoned + result.failed > 0);

/** In even shares, none above the size, none longer than a message may be. */
export function sharesOf(ids: readonly string[], size: number): readonly (readonly string[])[] {
  const even = Math.ceil(ids.length / Math.ceil(ids.length / size));
  const shares: string[][] = [];
  let bytes = longestShareBytes;
  for (const id of ids) {
    const own = Buffer.byteLength(JSON.stringify(id)) + 1;
    let share = shares.at(-1);
    if (share === undefined || share.length >= even || bytes + own > longestShareBytes) {
      share = [];
      shares.push(share);
      bytes = 0;
    }
    share.push(id);
    bytes += own;
  }
  return shares;
}
