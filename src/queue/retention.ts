import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown, requireDuration, requireList, requireName, requirePattern } from "./arguments.js";
import { longestMs } from "./retry-policy.js";

/** How long the messages of a topic, a type or a source are kept. It is for those that fit all of its conditions. */
export interface Retention {
  /** A topic, or the beginning of topics and a star: `"debug.*"`. */
  readonly topic?: string | undefined;
  /** A type, or the beginning of types and a star. A message without a type has that of its topic. */
  readonly type?: string | undefined;
  /** The sender. No message of an outbox has one. */
  readonly source?: string | undefined;
  /** Messages done within this time are kept. `Infinity` keeps them for ever. */
  readonly retentionMs?: number | undefined;
  /** Messages that died within this time are kept: a day at least. `Infinity` keeps them for ever. */
  readonly deadRetentionMs?: number | undefined;
}

const conditions = ["topic", "type", "source"] as const;
const ages = ["retentionMs", "deadRetentionMs"] as const;

/** Refuses a wrong list of retentions. `more`: what each may have beside. */
export function requireRetentions(
  retentions: readonly Retention[],
  what: string,
  more: readonly string[] = [],
): void {
  requireList(retentions, what);
  for (const [index, retention] of retentions.entries()) {
    const name = `${what}[${index}]`;
    refuseUnknown(retention, [...more, ...conditions, ...ages], name, "field");
    const { topic, type, source, retentionMs, deadRetentionMs } = retention;
    if (topic !== undefined) requirePattern(topic, `${name}.topic`);
    if (type !== undefined) requirePattern(type, `${name}.type`);
    if (source !== undefined) requireName(source, `${name}.source`);
    if (retentionMs !== undefined) requireRetention(retentionMs, `${name}.retentionMs`);
    if (deadRetentionMs !== undefined && deadRetentionMs !== keep && !isDeadRetention(deadRetentionMs))
      throw new InvalidArgumentError(`${name}.deadRetentionMs must be ${deadRetentionRange}, or Infinity.`);
    if (retentionMs === undefined && deadRetentionMs === undefined)
      throw new InvalidArgumentError(
        `${name} must have a retentionMs, a deadRetentionMs or both: how long its messages are kept.`,
      );
  }
}

const keep = Number.POSITIVE_INFINITY;

/** A duration, or `Infinity`. */
export function requireRetention(value: unknown, name: string): asserts value is number {
  if (value !== keep) requireDuration(value, name);
}

const dayMs = 24 * 60 * 60 * 1_000;

/** Below a day it is more likely a mistake in the unit than a wish, and what is deleted is gone. */
export const deadRetentionDays = { least: 1, most: longestMs / dayMs } as const;

export const isDeadRetention = (ms: unknown): ms is number =>
  typeof ms === "number" && ms >= deadRetentionDays.least * dayMs && ms <= deadRetentionDays.most * dayMs;

const deadRetentionRange = `a number of milliseconds from ${dayMs} (${deadRetentionDays.least} day) to ${longestMs} (${deadRetentionDays.most} days)`;
export const deadRetentionRule = `${deadRetentionRange}; leave it out to keep dead messages`;

export const daysToMs = (days: number): number => days * dayMs;

/** The retentions that any message may have: the given ones that say this age, and then the usual one. */
export const agesOf = (
  retentions: readonly Retention[] | undefined,
  age: (typeof ages)[number],
  usualMs: number,
): readonly number[] => [...(retentions ?? []).flatMap((retention) => retention[age] ?? []), usualMs];
