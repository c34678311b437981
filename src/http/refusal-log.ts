import type { LogFields, Logger } from "../base/logger.js";

/** Between two lines on refused requests of the same kind. */
export const refusalIntervalMs = 10_000;
/** Beyond so many kinds of refusals, the detail makes no other kind: a flood fills no memory. */
const maxKinds = 100;

export interface RefusalLine {
  readonly level: "warn" | "error";
  readonly message: string;
  readonly fields: LogFields;
  /** What makes refusals alike, beside the message. None of it is what the sender has made up. */
  readonly kind: readonly unknown[];
  /** What tells refusals of one kind apart, while there are few. */
  readonly detail?: unknown;
}

/**
 * Logs requests whose senders nothing proves. Such a request costs an attacker nothing, and a line costs money: the first
 * refusal is logged at once, and the first one after the interval says how many came between.
 */
export function refusalLog(logger: Logger, now: () => number): (line: RefusalLine) => void {
  /** When a kind of refusal was logged, and how many were not logged since then. */
  const refused = new Map<string, { readonly loggedAt: number; suppressed: number }>();
  return ({ level, message, fields, kind, detail }) => {
    const full = JSON.stringify([message, kind, detail]);
    const key = refused.has(full) || refused.size < maxKinds ? full : JSON.stringify([message, kind]);
    const last = refused.get(key);
    const at = now();
    if (last !== undefined && Math.abs(at - last.loggedAt) < refusalIntervalMs) {
      last.suppressed++;
      return;
    }
    refused.set(key, { loggedAt: at, suppressed: 0 });
    const more = last !== undefined && last.suppressed > 0 ? { refusedSinceLastLine: last.suppressed } : {};
    logger[level](message, { ...fields, ...more });
  };
}
