import { InvalidArgumentError } from "../errors.js";

/**
 * What a function app can do. One app may do all of it. Apps that do less need fewer rights:
 * - `webhook`: receives webhooks
 * - `work`: dispatches, reaps, cleans up and consumes
 * - `service`: the inbox as a service
 * - `admin`: the diagnostics API
 * - `migrate`: creates tables and users when it is called; never without being asked for
 */
export const functionGroups = ["webhook", "work", "service", "admin", "migrate"] as const;
export type FunctionGroup = (typeof functionGroups)[number];

const otherwise: readonly FunctionGroup[] = ["webhook", "work", "service", "admin"];

/** `ONCEBOX_FUNCTIONS`: groups with commas between them. */
export function readFunctionGroups(text: string | undefined): ReadonlySet<FunctionGroup> {
  if (text === undefined) return new Set(otherwise);
  const names = text.split(",").map((name) => name.trim());
  if (!names.every(isGroup)) {
    throw new InvalidArgumentError(
      `ONCEBOX_FUNCTIONS must be one or more of ${functionGroups.join(", ")}, with commas between them.`,
    );
  }
  return new Set(names);
}

const isGroup = (name: string): name is FunctionGroup => (functionGroups as readonly string[]).includes(name);
