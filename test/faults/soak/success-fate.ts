import type { Facts, Handling } from "./facts.js";
import { isExplained, lapseOf, lastRecordAt } from "./lease-time.js";

/**
 * What became of a handling that succeeded:
 * - `acked`: acknowledged by its process, which the database has confirmed to it or kept;
 * - `killed`: its process still held it when it was killed;
 * - `stopped`: its process was stopped past the lease, so the message was no longer its own;
 * - `unexplained`: none of these.
 */
export type Fate = "acked" | "killed" | "stopped" | "unexplained";

/** Undefined where nothing succeeded: the writes of a transactional handler commit with the acknowledgement or not at all. */
export function fateOf(facts: Facts, { lease, end }: Handling): Fate | undefined {
  const { process, message } = lease;
  if (end?.outcome !== "ok" || message.topic === "transactional") return undefined;
  const isAcked = facts.leasesOf(message).some(
    (other) =>
      other.process === process &&
      (other.owner === message.doneBy ||
        other.settlements.some(({ what, at, changed }) => {
          return what === "ack" && at >= end.at && changed.includes(message.seq);
        })),
  );
  if (isAcked) return "acked";
  const lost = lease.settlements.find(({ at }) => at >= end.at);
  const lapse = lapseOf(lease, lost?.at ?? lastRecordAt(process));
  if (lapse !== undefined) return isExplained(facts.run, process, lapse) ? "stopped" : "unexplained";
  return lost === undefined && process.end !== "left" ? "killed" : "unexplained";
}
