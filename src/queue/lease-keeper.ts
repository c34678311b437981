import type { DispatcherConfig } from "./dispatcher.js";
import type { Logger } from "./logger.js";
import type { QueueMessage } from "./message.js";
import type { OwnerToken } from "./owner-token.js";
import { describeThrown } from "./settlement.js";
import type { DispatchStore } from "./work-store.js";

export interface LeaseKeeper<Message> {
  /** These are ours from now on: renew them while they are. */
  hold(messages: readonly Message[]): void;
  letGo(message: Message): void;
  stop(): void;
}

/**
 * Renews, in one statement for each length of lease, whatever has been held for a third of it. Messages
 * that are handled within that time cost nothing.
 */
export function leaseKeeper<Message extends QueueMessage, Tx>(
  store: DispatchStore<Message, Tx>,
  owner: OwnerToken,
  config: DispatcherConfig<Message, Tx>,
  logger: Logger,
  onLost: (message: Message) => void,
): LeaseKeeper<Message> {
  interface Held {
    readonly message: Message;
    readonly leaseMs: number;
    renewAt: number;
  }
  // By row number. Not a Map: with thousands that come and go, every rehash would leave a table behind that keeps the
  // next one, and with it finished messages, from being collected young.
  const held: Record<number, Held> = Object.create(null);
  const everyMs = Math.max(10, config.leaseMs / 6);
  let busy = false;

  const renewDue = async (): Promise<void> => {
    const now = performance.now();
    const due = Object.values(held).filter((entry) => entry.renewAt <= now);
    for (const leaseMs of new Set(due.map((entry) => entry.leaseMs))) {
      const group = due.filter((entry) => entry.leaseMs === leaseMs);
      const { lost } = await store.renew(
        owner,
        group.map((entry) => entry.message),
        leaseMs,
      );
      for (const entry of group) entry.renewAt = now + leaseMs / 3;
      for (const { message } of group) {
        if (!lost.includes(message)) continue;
        if (held[message.seq] === undefined) continue; // settled while the renewal was on its way
        delete held[message.seq];
        onLost(message);
      }
    }
  };

  const timer = setInterval(async () => {
    if (busy) return;
    busy = true;
    try {
      await renewDue();
    } catch (error) {
      // The next tick tries again; two thirds of the lease are left for it.
      logger.error("renewing leases failed", {
        held: Object.keys(held).length,
        error: describeThrown(error),
      });
    } finally {
      busy = false;
    }
  }, everyMs);
  timer.unref();

  return {
    hold(messages) {
      const now = performance.now();
      for (const message of messages) {
        const leaseMs = Math.max(config.leaseMs, config.handlers.get(message.topic)?.leaseMs ?? 0);
        // A topic with a longer lease gets it with the first tick.
        const renewAt = leaseMs > config.leaseMs ? now : now + leaseMs / 3;
        held[message.seq] = { message, leaseMs, renewAt };
      }
    },
    letGo(message) {
      delete held[message.seq];
    },
    stop() {
      clearInterval(timer);
    },
  };
}
