import type { LogFields, Logger } from "../base/logger.js";

/** Between two lines on refused requests of the same source, outcome and reason. */
export const refusalIntervalMs = 10_000;
/** Beyond so many kinds of refusals, the reason makes no other kind: a flood fills no memory. */
const mostKinds = 100;

interface Refusals {
  readonly loggedAt: number;
  /** Not logged since then. */
  untold: number;
}

/**
 * Logs how requests ended. A request whose sender is not verified costs an attacker nothing, and a line costs money: the
 * first refusal is logged at once, and the first one after the interval says how many came between.
 */
export function endingLog(logger: Logger, now: () => number): (fields: LogFields) => void {
  const refused = new Map<string, Refusals>();
  return (fields) => {
    const { status, messageId, source, outcome, reason } = fields;
    const level = Number(status) >= 500 ? "error" : Number(status) >= 400 ? "warn" : "info";
    const isVerified = messageId !== undefined;
    if (level === "info" || isVerified) return logger[level]("webhook", fields);
    const full = JSON.stringify([source, outcome, reason]);
    const key = refused.has(full) || refused.size < mostKinds ? full : JSON.stringify([source, outcome]);
    const last = refused.get(key);
    const at = now();
    if (last !== undefined && Math.abs(at - last.loggedAt) < refusalIntervalMs) {
      last.untold++;
      return;
    }
    refused.set(key, { loggedAt: at, untold: 0 });
    const more = last !== undefined && last.untold > 0 ? { refusedSinceLastLine: last.untold } : {};
    logger[level]("webhook", { ...fields, ...more });
  };
}
