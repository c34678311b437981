import { defined } from "../base/defined.js";
import type { Logger } from "../base/logger.js";
import { createDispatcher, type Dispatcher } from "../dispatch/dispatcher.js";
import type { Handlers } from "../dispatch/handlers.js";
import type { QueueMessage } from "../queue/message.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { AppDefinition, AppParts } from "./app-definition.js";

export type AppHandlers<Message extends QueueMessage> =
  | Handlers<Message, SqlExecutor>
  | ((parts: AppParts) => Handlers<Message, SqlExecutor>);

/** A dispatcher with the definition's options; undefined without handlers. */
export function appDispatcher<Message extends QueueMessage>(
  handlers: AppHandlers<Message> | undefined,
  parts: AppParts,
  { dispatch, metrics, tracing }: AppDefinition,
  logger: Logger,
): Dispatcher<Message, SqlExecutor> | undefined {
  if (handlers === undefined) return undefined;
  return createDispatcher<Message, SqlExecutor>({
    ...dispatch,
    ...defined({ metrics, tracing }),
    handlers: typeof handlers === "function" ? handlers(parts) : handlers,
    logger,
  });
}
