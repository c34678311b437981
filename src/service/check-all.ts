import { problemOf } from "../base/problem-of.js";
import { InvalidArgumentError } from "../errors.js";

/** Runs all checks of an options object, and throws one error with all that they find. */
export function checkAll(what: string, checks: readonly (() => unknown)[]): void {
  const problems = checks.flatMap((check) => problemOf(() => void check()));
  if (problems.length > 0) throw new InvalidArgumentError(`${what}: ${problems.join("; ")}.`);
}

/** Refuses options that have none of these names, or more than one. */
export function requireOneOf(options: object, names: readonly string[]): void {
  const given = names.filter((name) => (options as Readonly<Record<string, unknown>>)[name] !== undefined);
  if (given.length !== 1)
    throw new InvalidArgumentError(`give ${names.join(" or ")}${given.length > 1 ? ", not both" : ""}`);
}
