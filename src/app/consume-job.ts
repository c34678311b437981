import { safeReason } from "../base/safe-reason.js";
import { InvalidOperationError } from "../errors.js";
import { compose } from "../middleware/compose.js";
import { inbox } from "../middleware/inbox-middleware.js";
import { outbox } from "../middleware/outbox-middleware.js";
import { transaction } from "../middleware/transaction-middleware.js";
import type { TriggerMessage } from "../middleware/trigger-message.js";
import type { OpenApp } from "./open-app.js";
import { coalesced } from "./wake-up.js";

/** Handles one message of a queue to its commit; throws when it has to be delivered again. */
export type ConsumeJob = (message: TriggerMessage) => Promise<void>;

/** The app's consumer in a transaction with inbox and outbox. What it sends need not wait for the timer. */
export function consumeJob({ definition, db, logger, wakeUp }: OpenApp): ConsumeJob {
  const { consumer, schema } = definition;
  if (consumer === undefined) {
    throw new InvalidOperationError(
      "This app has no consumer. Say what is done with a queue's messages: defineApp({ consumer: { subscriber, handle } }).",
    );
  }
  const inSchema = schema === undefined ? {} : { schema };
  const tableOf = (table: string | undefined) => (table === undefined ? {} : { table });
  const handle = compose<TriggerMessage>(
    [
      transaction(db),
      inbox({ subscriber: consumer.subscriber, ...inSchema, ...tableOf(definition.inbox?.table), logger }),
      outbox({ ...inSchema, ...tableOf(definition.outbox?.table), logger }),
    ],
    consumer.handle,
  );
  const wakingUp = wakeUp === undefined ? undefined : coalesced(wakeUp);
  return async (message) => {
    await handle(message);
    await wakingUp?.wake().catch((error: unknown) => {
      logger.warn("waking the dispatcher failed; the message is safe", { error: safeReason(error) });
    });
  };
}
