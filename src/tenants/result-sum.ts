import type { DispatchResult } from "../queue/dispatch-run.js";

/** Adds up what many turns did. */
export interface ResultSum {
  add(result: DispatchResult): void;
  /** Null when there was no turn. */
  result(stopped: DispatchResult["stopped"]): DispatchResult | null;
}

export function resultSum(): ResultSum {
  let sum: Omit<DispatchResult, "stopped"> | undefined;
  return {
    add({ stopped: _, ...counts }) {
      if (sum === undefined) {
        sum = counts;
        return;
      }
      const before = sum as unknown as Record<string, number>;
      sum = Object.fromEntries(
        Object.entries(counts).map(([name, value]) => [name, (before[name] ?? 0) + value]),
      ) as unknown as typeof counts;
    },
    result: (stopped) => (sum === undefined ? null : { ...sum, stopped }),
  };
}
