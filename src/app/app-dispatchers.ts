import { defined } from "../base/defined.js";
import type { Logger } from "../base/logger.js";
import { createDispatcher, type Dispatcher } from "../dispatch/dispatcher.js";
import type { InboxMessage, OutboxMessage } from "../queue/message.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { AppDefinition, AppParts } from "./app-definition.js";

/** Undefined where the app has no handlers of that kind. */
export interface AppDispatchers {
  readonly inbox: Dispatcher<InboxMessage, SqlExecutor> | undefined;
  readonly outbox: Dispatcher<OutboxMessage, SqlExecutor> | undefined;
}

/** The dispatchers of inbox and outbox, with the definition's options. */
export function appDispatchers(parts: AppParts, definition: AppDefinition, logger: Logger): AppDispatchers {
  const { dispatch, metrics, tracing, ignore, otherwise, handlers, publishers } = definition;
  const options = { ...dispatch, ...defined({ metrics, tracing }), logger };
  return {
    inbox:
      handlers &&
      createDispatcher({
        ...options,
        ...defined({ ignore, otherwise }),
        handlers: typeof handlers === "function" ? handlers(parts) : handlers,
      }),
    outbox:
      publishers &&
      createDispatcher({
        ...options,
        handlers: typeof publishers === "function" ? publishers(parts) : publishers,
      }),
  };
}
