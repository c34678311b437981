/** Tenants that failed and are left alone for a while. An instance remembers them; a new instance begins without any. */
export interface Quarantine {
  has(id: string): boolean;
  /** Returns for how long the tenant is quarantined. */
  failed(id: string): number;
  recovered(id: string): void;
}

const firstMs = 5_000;
const longestMs = 5 * 60_000;

/** The time doubles after each failure in a row, up to five minutes. */
export function tenantQuarantine(now: () => number = () => performance.now()): Quarantine {
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
