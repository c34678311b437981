import { loggedError } from "../base/logged-error.js";
import { type LoggerOption, loggerOf } from "../base/logger.js";
import { PermanentFailure, storedReason } from "../dispatch/settlement.js";
import { InvalidArgumentError } from "../errors.js";
import type { Inbox } from "../inbox/inbox.js";
import { optionalCount, refuseUnknown, requireName } from "../queue/arguments.js";
import { storableMessage } from "./storable-message.js";
import type { TriggerMessage } from "./trigger-message.js";

export interface ConsumeOptions {
  /** A composed handler, or any function that handles one message and throws when it fails. */
  readonly handle: (message: TriggerMessage) => unknown;
  /** The inbox that poison messages are written to, with their error. There they are listed, replayed and purged. */
  readonly deadLetters?: Inbox;
  /** The `source` of dead letters. Usually the subscriber of the inbox middleware. */
  readonly subscriber?: string;
  /** A message that fails at this delivery is dead: 5 by default. Keep it below the limit of the queue itself. */
  readonly maxDeliveries?: number;
  readonly logger?: LoggerOption;
}

/** A `failed` message is delivered again by the queue. The others are acknowledged. */
export type Consumed = "handled" | "dead" | "failed";

export type Consume = (
  message: TriggerMessage,
) => Promise<{ readonly end: Consumed; readonly error?: unknown }>;

const consumeOptionNames = ["handle", "deadLetters", "subscriber", "maxDeliveries", "logger"];

const defaultMaxDeliveries = 5;

/**
 * Handles one message of a queue trigger and writes a poison message to the dead letters. It never rejects: when the
 * dead letter cannot be written, the message has failed.
 */
export function createConsume(options: ConsumeOptions, what: string, more: readonly string[] = []): Consume {
  refuseUnknown(options ?? {}, [...consumeOptionNames, ...more], what);
  const { handle, deadLetters, subscriber, maxDeliveries = defaultMaxDeliveries } = options;
  if (typeof handle !== "function")
    throw new InvalidArgumentError(`${what}: handle must be a function, such as a composed handler.`);
  optionalCount(maxDeliveries, `${what}: maxDeliveries`, 1);
  if (deadLetters !== undefined) requireName(subscriber, `${what}: subscriber, the source of dead letters,`);
  const logger = loggerOf(options.logger);

  const isPoison = (message: TriggerMessage, error: unknown): boolean =>
    error instanceof PermanentFailure || message.deliveries >= maxDeliveries;

  return async (message) => {
    try {
      await handle(message);
      return { end: "handled" };
    } catch (error) {
      const reason = storedReason(error, message.payload);
      // Without the topic, which is an attribute that any sender may set to anything.
      const fields = {
        messageId: message.messageId,
        deliveries: message.deliveries,
        ...loggedError(error),
      };
      if (deadLetters === undefined || !isPoison(message, error)) {
        logger.warn("message failed", fields);
        return { end: "failed", error };
      }
      try {
        await writeDeadLetter(deadLetters, subscriber!, message, reason);
      } catch (failure) {
        logger.error("dead letter not written", { ...fields, cause: (failure as { code?: string }).code });
        return { end: "failed", error: failure };
      }
      logger.error("message is dead", fields);
      return { end: "dead" };
    }
  };
}

/**
 * Marks the message dead first and stores its content second, so that no worker can claim it in between. A function
 * that is killed in between has not acknowledged the message, and the redelivery stores the content.
 */
async function writeDeadLetter(
  inbox: Inbox,
  subscriber: string,
  message: TriggerMessage,
  reason: string,
): Promise<void> {
  const storable = storableMessage(message);
  await inbox.markDead({ source: subscriber, messageId: storable.messageId }, reason);
  await inbox.receive({ source: subscriber, ...storable });
}
