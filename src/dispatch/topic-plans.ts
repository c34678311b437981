import { InvalidArgumentError } from "../errors.js";
import type { ResolvedHandler } from "./handlers.js";
import { requirePattern, type TopicPattern, topicMatcher } from "./topic-patterns.js";

/** What becomes of a message whose topic has no handler. */
export type Otherwise = "ack" | "dead" | "retry";

const choices: readonly Otherwise[] = ["ack", "dead", "retry"];

/** What is done with the messages of a topic. */
export interface TopicPlan<Message, Tx> {
  /** The topic, or the pattern it fits: their number is bounded where a handler or `ignore` names them. */
  readonly name: TopicPattern;
  readonly handler: ResolvedHandler<Message, Tx> | undefined;
  /** Without a handler: what becomes of the message. `"ignore"` when the app said so for this topic. */
  readonly otherwise: Otherwise | "ignore";
}

/** Finds the plan of a topic: of its handler or of `ignore`, whichever pattern is longer, else of `otherwise`. */
export function topicPlans<Message, Tx>(
  handlers: ReadonlyMap<TopicPattern, ResolvedHandler<Message, Tx>>,
  {
    ignore = [],
    otherwise = "retry",
  }: { readonly ignore?: readonly TopicPattern[]; readonly otherwise?: Otherwise },
): (topic: string) => TopicPlan<Message, Tx> {
  checkOptions(handlers, ignore, otherwise);
  const plans = new Map<TopicPattern, TopicPlan<Message, Tx>>();
  for (const name of ignore) plans.set(name, { name, handler: undefined, otherwise: "ignore" });
  for (const [name, handler] of handlers) plans.set(name, { name, handler, otherwise });
  const find = topicMatcher(plans);
  return (topic) => find(topic) ?? { name: topic, handler: undefined, otherwise };
}

function checkOptions(
  handlers: ReadonlyMap<TopicPattern, unknown>,
  ignore: unknown,
  otherwise: unknown,
): void {
  if (!Array.isArray(ignore)) throw new InvalidArgumentError("ignore must be a list of topics.");
  for (const pattern of ignore) {
    requirePattern(pattern, "a topic of ignore");
    if (handlers.has(pattern))
      throw new InvalidArgumentError(`The topic ${JSON.stringify(pattern)} has a handler and is in ignore.`);
  }
  if (!choices.includes(otherwise as Otherwise))
    throw new InvalidArgumentError(`otherwise must be one of ${choices.join(", ")}.`);
}
