import type { AppDefinition } from "../app/app-definition.js";
import { createApp } from "../app/create-app.js";
import type { Environment } from "../config/environment.js";
import { topicMatcher } from "../dispatch/topic-patterns.js";
import { withFirstTopic } from "./first-topic.js";
import { devDatabase } from "./load-app.js";
import { providerTopic } from "./provider-topic.js";

/**
 * The topic of an example event: what the provider really sends, or, where the app does not handle that, the first topic
 * that it handles. An event without a handler would be tried ten times and then be dead.
 */
export async function exampleTopic(
  provider: unknown,
  given: AppDefinition,
  environment: Environment,
): Promise<string> {
  const real = providerTopic(provider);
  const { definition, topics, firstTopic } = withFirstTopic(given);
  if (typeof given.handlers === "function" && given.tenants === undefined) {
    await callHandlers(definition, environment);
  }
  const isHandled = topicMatcher(new Map(topics().map((topic) => [topic, true])))(real);
  return isHandled ? real : (firstTopic() ?? real);
}

/** Creates an app of the handlers alone. It opens no connection. */
async function callHandlers({ handlers }: AppDefinition, environment: Environment): Promise<void> {
  try {
    const app = await createApp({ database: devDatabase, ...(handlers && { handlers }) }, { environment });
    await app.close();
  } catch {
    // `oncebox dev` says what is wrong with the handlers.
  }
}
