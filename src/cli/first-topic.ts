import type { AppDefinition } from "../app/app-definition.js";

/**
 * The topics that the app handles, for example events. A function that makes the handlers is called once, when the app is
 * opened, so its topics are known after that. With tenants it is called later, and then no topic is known here.
 */
export function withFirstTopic(given: AppDefinition): {
  readonly definition: AppDefinition;
  /** The keys of the handlers: topics and patterns. */
  readonly topics: () => readonly string[];
  readonly firstTopic: () => string | undefined;
} {
  const { handlers } = given;
  let topics = typeof handlers === "function" ? [] : Object.keys(handlers ?? {});
  const known = {
    topics: () => topics,
    firstTopic: () => topics.find((topic) => !topic.endsWith("*")),
  };
  if (typeof handlers !== "function") return { definition: given, ...known };
  const definition: AppDefinition = {
    ...given,
    handlers(parts) {
      const made = handlers(parts);
      topics = Object.keys(made ?? {});
      return made;
    },
  };
  return { definition, ...known };
}
