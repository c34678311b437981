import { InvalidArgumentError } from "../errors.js";
import { nameProblem } from "../queue/arguments.js";

/** Returns what is wrong with a key. Control characters are refused: a key is shown to operators and sent in URLs. */
export function keyProblem(value: unknown): string | undefined {
  const problem = nameProblem(value);
  if (problem !== undefined) return problem;
  return /\p{Cc}/u.test(value as string) ? "must not have control characters." : undefined;
}

export function requireKey(value: unknown): asserts value is string {
  const problem = keyProblem(value);
  if (problem !== undefined) throw new InvalidArgumentError(`key ${problem}`);
}
