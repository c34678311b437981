import type { Outcome } from "./simulate.js";

/** AWS Lambda, x86, us-east-1, without the free tier. */
const dollarsPerGbSecond = 0.0000166667;
const dollarsPerRequest = 0.2 / 1_000_000;
const monthMs = 30 * 24 * 3_600_000;

/** The cost where every timer period is like the simulated one. */
export const dollarsPerMonth = (
  { gbSeconds, invocations }: Pick<Outcome, "gbSeconds" | "invocations">,
  periodMs: number,
): number => (monthMs / periodMs) * (gbSeconds * dollarsPerGbSecond + invocations * dollarsPerRequest);
