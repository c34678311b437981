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
  const held = new Map<number, Held>();
  const everyMs = Math.max(10, config.leaseMs / 6);
  let busy = false;

  const renewDue = async (): Promise<void> => {
    const now = performance.now();
    const due = [...held.values()].filter((entry) => entry.renewAt <= now);
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
        if (!held.delete(message.seq)) continue; // settled while the renewal was on its way
        onLost(message);
      }
    }
  };

  const timer = setInterval(async () => {
    if (busy || held.size === 0) return;
    busy = true;
    try {
      await renewDue();
    } catch (error) {
      // The next tick tries again; two thirds of the lease are left for it.
      logger.error("renewing leases failed", { held: held.size, error: describeThrown(error) });
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
        held.set(message.seq, { message, leaseMs, renewAt });
      }
    },
    letGo(message) {
      held.delete(message.seq);
    },
    stop() {
      clearInterval(timer);
    },
  };
}
