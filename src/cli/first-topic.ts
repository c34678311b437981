import type { AppDefinition } from "../app/app-definition.js";

/**
 * The first topic that the app handles, for example events. A function that makes the handlers is called once, when the app
 * is opened, so its topics are known after that. With tenants it is called later, and then no topic is known here.
 */
export function withFirstTopic(given: AppDefinition): {
  readonly definition: AppDefinition;
  readonly firstTopic: () => string | undefined;
} {
  const { handlers } = given;
  if (typeof handlers !== "function") {
    const [topic] = Object.keys(handlers ?? {});
    return { definition: given, firstTopic: () => topic };
  }
  let topic: string | undefined;
  const definition: AppDefinition = {
    ...given,
    handlers(parts) {
      const made = handlers(parts);
      topic = Object.keys(made ?? {})[0];
      return made;
    },
  };
  return { definition, firstTopic: () => topic };
}
