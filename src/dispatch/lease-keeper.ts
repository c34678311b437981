import type { Logger } from "../base/logger.js";
import type { QueueMessage } from "../queue/message.js";
import type { OwnerToken } from "../queue/owner-token.js";
import type { DispatchStore } from "../queue/work-store.js";
import type { DispatcherConfig } from "./dispatcher.js";
import { describeThrown } from "./settlement.js";

export interface LeaseKeeper {
  stop(): void;
}

interface Held<Message> {
  readonly message: Message;
  readonly leaseMs: number;
  renewAt: number;
}

/**
 * Renews, at regular times, the leases that have used a third of their length, in one statement for each length. A message
 * that is settled before then costs nothing.
 */
export function leaseKeeper<Message extends QueueMessage, Tx>(
  store: DispatchStore<Message, Tx>,
  owner: OwnerToken,
  config: DispatcherConfig<Message, Tx>,
  logger: Logger,
  heldNow: () => readonly Message[],
  onLost: (message: Message) => void,
): LeaseKeeper {
  const everyMs = Math.max(10, config.leaseMs / 6);
  let held = new Map<Message, Held<Message>>();
  let busy = false;

  const updateHeld = (now: number): void => {
    const before = held;
    held = new Map();
    for (const message of heldNow()) held.set(message, before.get(message) ?? firstSeen(message, now));
  };

  /** The message may have been claimed right after the last check. A topic with a longer lease gets it at once. */
  const firstSeen = (message: Message, now: number): Held<Message> => {
    const leaseMs = Math.max(config.leaseMs, config.handlers.get(message.topic)?.leaseMs ?? 0);
    return { message, leaseMs, renewAt: leaseMs > config.leaseMs ? now : now + leaseMs / 3 - everyMs };
  };

  const renewDue = async (): Promise<void> => {
    const now = performance.now();
    updateHeld(now);
    const due = [...held.values()].filter((entry) => entry.renewAt <= now);
    for (const leaseMs of new Set(due.map((entry) => entry.leaseMs))) {
      const group = due.filter((entry) => entry.leaseMs === leaseMs);
      const messages = group.map((entry) => entry.message);
      const lost = new Set((await store.renew(owner, messages, leaseMs)).lost);
      for (const entry of group) entry.renewAt = now + leaseMs / 3;
      if (lost.size === 0) continue;
      // a message that was settled while the renewal ran is not lost
      for (const message of heldNow()) if (lost.has(message)) onLost(message);
    }
  };

  const timer = setInterval(async () => {
    if (busy) return;
    busy = true;
    try {
      await renewDue();
    } catch (error) {
      // The next check tries again, with two thirds of the lease left.
      logger.error("renewing leases failed", { held: held.size, error: describeThrown(error) });
    } finally {
      busy = false;
    }
  }, everyMs);
  timer.unref();

  return { stop: () => clearInterval(timer) };
}
