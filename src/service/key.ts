import { randomUUID } from "node:crypto";
import { isGuid } from "../base/guid.js";
import { ArgumentRangeError, InvalidArgumentError } from "../errors.js";
import { nameProblem, requireDuration } from "../queue/arguments.js";
import { longestOwner } from "./inbox-store.js";

// Longer keys are refused by nameProblem: `longestKey` characters are what the SQL databases can index.
const control = /\p{Cc}/u;

/** Returns what is wrong with a key, as the rest of a sentence that begins with its name. The same for every provider. */
export function keyProblem(value: unknown): string | undefined {
  return nameProblem(value) ?? (hasControl(value) ? "must not contain control characters." : undefined);
}

/** Like keyProblem, for the name under which a caller asks for a lease. */
export function ownerProblem(value: unknown): string | undefined {
  if (typeof value === "string" && value.length > longestOwner) {
    return `has ${value.length} characters; at most ${longestOwner} can be stored.`;
  }
  return keyProblem(value);
}

const hasControl = (value: unknown): boolean => typeof value === "string" && control.test(value);

export function requireKey(value: unknown): asserts value is string {
  refuse("key", keyProblem(value));
}

export function optionalOwner(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  refuse("owner", ownerProblem(value));
  return value as string;
}

/** Any text may be sent as a lease id: one that no store made holds no key. */
export function requireLeaseId(value: unknown): asserts value is string {
  refuse("leaseId", typeof value === "string" && value !== "" ? undefined : "must be a non-empty string.");
}

/** The id of a new lease: the one that the caller proposes, or one made here. In lower case, as databases return it. */
export function newLeaseId(proposed: string = randomUUID()): string {
  if (isGuid(proposed)) return proposed.toLowerCase();
  throw new InvalidArgumentError("leaseId must be a UUID, made for this call alone.");
}

export function requireLeaseMs(value: unknown): asserts value is number {
  requireDuration(value, "leaseMs");
}

function refuse(name: string, problem: string | undefined): void {
  if (problem !== undefined) throw new InvalidArgumentError(`${name} ${problem}`);
}

const dayMs = 24 * 60 * 60 * 1000;
export const shortestRetentionMs = 7 * dayMs;
export const longestRetentionMs = 30 * dayMs;
export const defaultRetentionMs = longestRetentionMs;

/** How long processed keys are kept: 7 to 30 days. A message that its broker delivers again later is handled again. */
export function retention(value: unknown = defaultRetentionMs): number {
  if (typeof value !== "number" || !(value >= shortestRetentionMs && value <= longestRetentionMs)) {
    throw new ArgumentRangeError(
      `retentionMs must be from ${shortestRetentionMs} (7 days) to ${longestRetentionMs} ms (30 days), not ${String(value)}.`,
    );
  }
  return value;
}
