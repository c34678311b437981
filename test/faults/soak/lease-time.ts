import type { Facts, Handling, LeaseFacts } from "./facts.js";
import type { SoakProcess, SoakRun, Stall } from "./records.js";

interface Interval {
  readonly from: number;
  readonly to: number;
}

/** When the lease ends by what its process knows at `at`. */
export const leaseEnd = ({ grants }: LeaseFacts, at: number): number =>
  Math.max(...grants.filter(({ from }) => from <= at).map(({ until }) => until));

export const lastRecordAt = ({ records }: SoakProcess): number => records.at(-1)?.at ?? 0;

/**
 * The times in which a handler runs under a live lease. A handler that has not ended counts until its lease ends, though its
 * process may have died: until then nobody else may have the message.
 */
export function liveTimes({ lease, start, end }: Handling): readonly Interval[] {
  const endsAt = end?.at ?? Number.POSITIVE_INFINITY;
  return lease.grants
    .map(({ from, until }) => ({ from: Math.max(from, start.at), to: Math.min(until, endsAt) }))
    .filter(({ from, to }) => from < to);
}

/** The first time, before `to`, at which the lease was over by the process's own clock. */
interface Lapse {
  readonly at: number;
  /** When the last renewal before it was sent. */
  readonly renewedAt: number;
}

export function lapseOf({ grants }: LeaseFacts, to: number): Lapse | undefined {
  let last = grants[0]!;
  for (const grant of grants) {
    if (grant.from >= Math.min(last.until, to)) break;
    if (grant.until > last.until) last = grant;
  }
  return last.until < to ? { at: last.until, renewedAt: last.sentAt } : undefined;
}

/** Whether the process was stopped, or nobody was served, for long enough that the lease could not be renewed. */
export function isExplained({ leaseMs, stalls }: SoakRun, process: SoakProcess, lapse: Lapse): boolean {
  const gaps = process.records.flatMap((record): readonly Stall[] =>
    record.kind === "gap" ? [{ from: record.from, to: record.at }] : [],
  );
  const within = (times: readonly Stall[]): number =>
    times.reduce(
      (sum, { from, to }) => sum + Math.max(0, Math.min(to, lapse.at) - Math.max(from, lapse.renewedAt)),
      0,
    );
  return within(gaps) >= leaseMs / 3 || within(stalls) >= leaseMs / 3;
}

/**
 * The process was frozen between the check of the lease and the first line of the handler: it had been seen before the end
 * of the lease, and not since. Nothing in the process can prevent that.
 */
export function isFrozenStart({ lease, start }: Handling): boolean {
  const endsAt = leaseEnd(lease, start.at);
  return start.at >= endsAt && start.seenAt < endsAt;
}

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
