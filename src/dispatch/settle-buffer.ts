import type { Logger } from "../base/logger.js";
import type { QueueMessage } from "../queue/message.js";
import type { OwnerToken } from "../queue/owner-token.js";
import type { DispatchStore, Settlement } from "../queue/work-store.js";
import { describeThrown, type Verdict } from "./settlement.js";

export interface SettleCounts {
  acked: number;
  abandoned: number;
  failed: number;
  released: number;
  lost: number;
}

export interface SettleBuffer<Message> {
  add(message: Message, verdict: Verdict): void;
  /** Resolves when everything added so far is settled, or has been given up. */
  flush(): Promise<void>;
}

interface Group<Message> {
  readonly acks: Message[];
  readonly releases: Message[];
  readonly abandons: { readonly message: Message; readonly verdict: Extract<Verdict, { kind: "abandon" }> }[];
  readonly failures: { readonly message: Message; readonly error: string }[];
}

const emptyGroup = <Message>(): Group<Message> => ({ acks: [], releases: [], abandons: [], failures: [] });

/** Tries at one call before it is left to the lease's expiry; the store has already retried transient faults. */
const maxTries = 3;

/**
 * Settles finished messages in groups while handlers go on. One group is on its way at a time: what
 * finishes meanwhile makes the next, so groups are small when handlers are slow and large when they
 * are fast, and a function that is killed redelivers only what was on its way.
 */
export function settleBuffer<Message extends QueueMessage>(
  store: DispatchStore<Message>,
  owner: OwnerToken,
  counts: SettleCounts,
  logger: Logger,
  onAnswer: (ms: number) => void,
): SettleBuffer<Message> {
  let waiting = emptyGroup<Message>();
  let isWaiting = false;
  let flushing: Promise<void> | undefined;

  const settle = async (
    count: Exclude<keyof SettleCounts, "lost">,
    call: () => Promise<Settlement<unknown>>,
  ): Promise<void> => {
    for (let tries = 1; tries <= maxTries; tries++) {
      try {
        const startedAt = performance.now();
        const { changed, lost } = await call();
        onAnswer(performance.now() - startedAt);
        counts[count] += changed.length;
        counts.lost += lost.length;
        return;
      } catch (error) {
        logger.error("settling failed", { tries, error: describeThrown(error) });
      }
    }
  };

  /** One call for each kind of verdict; abandons by their limit of attempts, failures one by one. */
  const settleAll = async ({ acks, releases, abandons, failures }: Group<Message>): Promise<void> => {
    if (acks.length > 0) await settle("acked", () => store.ack(owner, acks));
    if (releases.length > 0) await settle("released", () => store.release(owner, releases));
    for (const maxAttempts of new Set(abandons.map(({ verdict }) => verdict.maxAttempts))) {
      const items = abandons
        .filter(({ verdict }) => verdict.maxAttempts === maxAttempts)
        .map(({ message, verdict: { delayMs, error, costsAttempt } }) => ({
          message,
          delayMs,
          error,
          costsAttempt,
        }));
      await settle("abandoned", () => store.abandon(owner, items, { maxAttempts }));
    }
    for (const { message, error } of failures)
      await settle("failed", () => store.fail(owner, [message], error));
  };

  const drain = async (): Promise<void> => {
    // What finishes within this turn of the event loop goes together.
    await new Promise((resolve) => setImmediate(resolve));
    while (isWaiting) {
      const group = waiting;
      waiting = emptyGroup();
      isWaiting = false;
      await settleAll(group);
    }
    flushing = undefined;
  };

  const start = (): Promise<void> => {
    flushing ??= drain();
    return flushing;
  };

  return {
    add(message, verdict) {
      if (verdict.kind === "ack") waiting.acks.push(message);
      else if (verdict.kind === "release") waiting.releases.push(message);
      else if (verdict.kind === "abandon") waiting.abandons.push({ message, verdict });
      else waiting.failures.push({ message, error: verdict.error });
      isWaiting = true;
      if (flushing === undefined) void start();
    },
    async flush() {
      while (flushing !== undefined || isWaiting) await start();
    },
  };
}
