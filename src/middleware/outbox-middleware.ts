import { createOutbox, type OutboxOptions } from "../outbox/outbox.js";
import type { OutgoingMessage } from "../outbox/outgoing-message.js";
import { refuseUnknown, requireName } from "../queue/arguments.js";
import { asTransaction } from "../sql/driver.js";
import { requireScope, type TransactionScope } from "./current-transaction.js";
import { toOutgoing } from "./outgoing.js";
import { perDatabase } from "./per-database.js";
import type { StoreMiddleware } from "./stages.js";

export interface OutboxMiddlewareOptions
  extends Pick<OutboxOptions, "schema" | "table" | "logger" | "metrics" | "tracing" | "clock"> {
  /** The topic of messages that have none. */
  readonly topic?: string;
}

export interface OutboxMiddleware extends StoreMiddleware {
  readonly stage: "outbox";
  /** Enables `publish` in the scope. */
  collect(scope: TransactionScope): void;
  /**
   * Writes published messages and the handler's output into the outbox, in one statement. On a driver that pipelines it
   * resolves before the database has responded, so that the commit is sent with the insert.
   */
  write(scope: TransactionScope, output: unknown): Promise<void>;
}

const known = ["topic", "schema", "table", "logger", "metrics", "tracing", "clock"];

/**
 * Writes the messages that the handler returns into the outbox, in the handler's transaction. The composed handler then
 * returns nothing.
 *
 * @example
 * compose([transaction(db), inbox({ subscriber: "orders" }), outbox({ topic: "order-events" })], handler)
 */
export function outbox(options: OutboxMiddlewareOptions = {}): OutboxMiddleware {
  refuseUnknown(options, known, "outbox middleware");
  const { topic, ...settings } = options;
  if (topic !== undefined) requireName(topic, "outbox middleware: topic");
  const storeOn = perDatabase((db) => createOutbox(db, settings));

  const collect = (scope: TransactionScope): void => {
    scope.outgoing = [];
  };
  const write = async (scope: TransactionScope, output: unknown): Promise<void> => {
    const messages: readonly OutgoingMessage[] = [...(scope.outgoing ?? []), ...toOutgoing(output, topic)];
    scope.outgoing = undefined;
    if (messages.length === 0) return;
    const store = storeOn(scope.db);
    let isSent = false;
    const tx = asTransaction({
      query(...call) {
        isSent = true;
        return scope.tx.query(...call);
      },
    });
    const written =
      messages.length === 1 ? store.enqueue(messages[0]!, { tx }) : store.enqueue(messages, { tx });
    if (isSent && scope.tx.pipelines) {
      written.catch(() => {}); // the transaction awaits and reports it
      scope.written = written;
    } else await written;
  };

  return {
    stage: "outbox",
    collect,
    write,
    async run(_message, next) {
      const scope = requireScope("outbox");
      collect(scope);
      await write(scope, await next());
      return undefined;
    },
    deploy: (db) => createOutbox(db, { ...settings, enableSchemaDeployment: true }).init(),
  };
}
