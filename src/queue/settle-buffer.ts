import type { Logger } from "./logger.js";
import type { QueueMessage } from "./message.js";
import type { OwnerToken } from "./owner-token.js";
import { describeThrown, type Verdict } from "./settlement.js";
import type { DispatchStore, Settlement } from "./work-store.js";

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
): SettleBuffer<Message> {
  let waiting: { message: Message; verdict: Verdict }[] = [];
  let flushing: Promise<void> | undefined;

  /** One call to the store for each kind of verdict; failures are told apart by their reason, one call each. */
  const callsFor = (group: typeof waiting): (() => Promise<void>)[] => {
    const of = <K extends Verdict["kind"]>(kind: K) =>
      group.filter(
        (entry): entry is { message: Message; verdict: Extract<Verdict, { kind: K }> } =>
          entry.verdict.kind === kind,
      );
    const call =
      (count: Exclude<keyof SettleCounts, "lost">, settle: () => Promise<Settlement<unknown>>) =>
      async () => {
        const { changed, lost } = await settle();
        counts[count] += changed.length;
        counts.lost += lost.length;
      };
    const acks = of("ack").map((entry) => entry.message);
    const releases = of("release").map((entry) => entry.message);
    const abandons = of("abandon");
    const limits = [...new Set(abandons.map(({ verdict }) => verdict.maxAttempts))];
    const abandonsOf = (maxAttempts: number | undefined) =>
      abandons
        .filter(({ verdict }) => verdict.maxAttempts === maxAttempts)
        .map(({ message, verdict }) => ({ message, delayMs: verdict.delayMs, error: verdict.error }));
    return [
      ...(acks.length > 0 ? [call("acked", () => store.ack(owner, acks))] : []),
      ...(releases.length > 0 ? [call("released", () => store.release(owner, releases))] : []),
      ...limits.map((maxAttempts) =>
        call("abandoned", () => store.abandon(owner, abandonsOf(maxAttempts), { maxAttempts })),
      ),
      ...of("fail").map(({ message, verdict }) =>
        call("failed", () => store.fail(owner, [message], verdict.error)),
      ),
    ];
  };

  const persistently = async (settle: () => Promise<void>): Promise<void> => {
    for (let tries = 1; ; tries++) {
      try {
        return await settle();
      } catch (error) {
        logger.error("settling failed", { tries, error: describeThrown(error) });
        if (tries === maxTries) return;
      }
    }
  };

  const drain = async (): Promise<void> => {
    // What finishes within this turn of the event loop goes together.
    await new Promise((resolve) => setImmediate(resolve));
    while (waiting.length > 0) {
      const group = waiting;
      waiting = [];
      for (const settle of callsFor(group)) await persistently(settle);
    }
  };

  const start = (): Promise<void> => {
    flushing ??= drain().finally(() => {
      flushing = undefined;
      if (waiting.length > 0) void start();
    });
    return flushing;
  };

  return {
    add(message, verdict) {
      waiting.push({ message, verdict });
      if (flushing === undefined) void start();
    },
    async flush() {
      while (flushing !== undefined || waiting.length > 0) await start();
    },
  };
}
