/** Tenants that failed, each until its time. Remembered by an instance; a new one finds out by itself. */
export interface Quarantine {
  has(id: string): boolean;
  /** Answers how long it is set aside. */
  failed(id: string): number;
  recovered(id: string): void;
}

const firstMs = 5_000;
const longestMs = 5 * 60_000;

/** Twice as long after each failure in a row, up to five minutes, when the timer would come by anyway. */
export function quarantine(now: () => number = () => performance.now()): Quarantine {
  const entries = new Map<string, { failures: number; until: number }>();
  return {
    has(id) {
      const until = entries.get(id)?.until;
      return until !== undefined && now() < until;
    },
    failed(id) {
      const failures = (entries.get(id)?.failures ?? 0) + 1;
      const ms = Math.min(longestMs, firstMs * 2 ** Math.min(failures - 1, 30));
      entries.set(id, { failures, until: now() + ms });
      return ms;
    },
    recovered: (id) => void entries.delete(id),
  };
}
