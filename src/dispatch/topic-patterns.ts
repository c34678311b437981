import { InvalidArgumentError } from "../errors.js";
import { requireName } from "../queue/arguments.js";

/** A topic, or all that begin with some text: `"order.created"`, `"order.*"`, `"*"`. */
export type TopicPattern = string;

/** A star is only understood at the end. Elsewhere it would look as if it matched and never would. */
export function requirePattern(pattern: TopicPattern, what: string): void {
  requireName(pattern, what);
  if (pattern.slice(0, -1).includes("*"))
    throw new InvalidArgumentError(`${what} may have a * only at its end: ${JSON.stringify(pattern)}.`);
}

/** Finds the value of the topic itself, else of the longest pattern that fits. */
export function topicMatcher<Value>(
  values: ReadonlyMap<TopicPattern, Value>,
): (topic: string) => Value | undefined {
  const prefixes = [...values]
    .filter(([pattern]) => pattern.endsWith("*"))
    .map(([pattern, value]) => ({ prefix: pattern.slice(0, -1), value }))
    .sort((a, b) => b.prefix.length - a.prefix.length);
  return (topic) => values.get(topic) ?? prefixes.find(({ prefix }) => topic.startsWith(prefix))?.value;
}
