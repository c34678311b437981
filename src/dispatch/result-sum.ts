import type { DispatchResult } from "./dispatch-run.js";

/** The sum of two runs. It stopped for the reason of the second. */
export function sumOfResults(a: DispatchResult | null, b: DispatchResult | null): DispatchResult | null {
  if (a === null || b === null) return a ?? b;
  const counts = Object.entries(b).map(([name, value]) =>
    typeof value === "number" ? [name, value + (a[name as keyof DispatchResult] as number)] : [name, value],
  );
  return Object.fromEntries(counts) as DispatchResult;
}
