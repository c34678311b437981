import { omitUndefined } from "../base/defined.js";
import { inSpan, processSpan } from "../base/telemetry.js";
import { InvalidOperationError } from "../errors.js";
import { compose } from "../middleware/compose.js";
import type { TriggerMessage } from "../middleware/consume.js";
import { inbox, outbox } from "../middleware/inbox-outbox.js";
import { transaction } from "../middleware/transaction.js";
import type { OpenApp } from "./open-app.js";
import { wakeAfterCommit } from "./wake-up.js";

/** Handles one message of a queue up to the commit. Throws when the queue has to deliver it again. */
export type ConsumeJob = (message: TriggerMessage) => Promise<void>;

/** Runs the app's consumer in a transaction with inbox and outbox, and wakes the dispatcher for the messages it sends. */
export function consumeJob({ definition, db, logger, wakeUp }: OpenApp): ConsumeJob {
  const { consumer, schema, metrics, tracing, topics } = definition;
  if (consumer === undefined) {
    throw new InvalidOperationError(
      "This app has no consumer. Add one: defineApp({ consumer: { subscriber, handle } }).",
    );
  }
  const optionsOf = (store: { readonly table?: string } | undefined) => ({
    ...omitUndefined({ schema, table: store?.table }),
    logger,
  });
  const handle = compose<TriggerMessage>(
    [
      transaction(db),
      inbox({ subscriber: consumer.subscriber, ...optionsOf(definition.inbox) }),
      outbox({ ...optionsOf(definition.outbox), ...omitUndefined({ metrics, tracing, topics }) }),
    ],
    consumer.handle,
  );
  const wake = wakeUp && wakeAfterCommit(wakeUp, logger);
  return async (message) => {
    if (tracing === undefined) await handle(message);
    else await inSpan(tracing, spanOf(message), () => handle(message));
    await wake?.();
  };
}

/** Only senders whom the queue allows can set the headers. */
const spanOf = ({ messageId, topic, headers }: TriggerMessage) =>
  processSpan(topic, headers, { "messaging.message.id": messageId });
