import { problemOf } from "../base/problem-of.js";
import { requireName } from "../queue/arguments.js";

/** A service's id is the first part of a topic, so it has no slash. */
export function serviceIdProblem(id: unknown, name: string): readonly string[] {
  const problem = problemOf(() => requireName(id, name));
  if (problem.length > 0 || !(id as string).includes("/")) return problem;
  return [`${name} must not contain "/"`];
}
