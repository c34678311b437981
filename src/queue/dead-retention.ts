import { longestMs } from "./retry-policy.js";

const dayMs = 24 * 60 * 60 * 1_000;

/** Below a day it is more likely a mistake in the unit than a wish, and what is deleted is gone. */
export const deadRetentionDays = { least: 1, most: longestMs / dayMs } as const;

export const isDeadRetention = (ms: unknown): ms is number =>
  typeof ms === "number" && ms >= deadRetentionDays.least * dayMs && ms <= deadRetentionDays.most * dayMs;

export const deadRetentionRule = `a number of milliseconds from ${dayMs} (${deadRetentionDays.least} day) to ${longestMs} (${deadRetentionDays.most} days); leave it out to keep dead messages`;

export const daysToMs = (days: number): number => days * dayMs;
