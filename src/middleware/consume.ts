import { guardedLogger, type Logger, silentLogger } from "../base/logger.js";
import { withoutPayload } from "../base/redact.js";
import { describeThrown, PermanentFailure } from "../dispatch/settlement.js";
import { InvalidArgumentError } from "../errors.js";
import type { Inbox } from "../inbox/inbox.js";
import { optionalCount, refuseUnknown, requireName } from "../queue/arguments.js";
import type { TriggerMessage } from "./trigger-message.js";

export interface ConsumeOptions {
  /** The stack, or any function that handles one message and throws when it could not. */
  readonly handle: (message: TriggerMessage) => unknown;
  /** Where poison messages go, with their error: seen, replayed and purged there like all others. */
  readonly deadLetters?: Inbox;
  /** The `source` of dead letters; the inbox middleware's subscriber, usually. */
  readonly subscriber?: string;
  /** A message that fails at its last delivery is dead: 5 by default. Keep it below the queue's own limit. */
  readonly maxDeliveries?: number;
  readonly logger?: Logger;
}

/** `failed` wants to be delivered again; the other two are to be acknowledged. */
export type Consumed = "handled" | "dead" | "failed";

export type Consume = (
  message: TriggerMessage,
) => Promise<{ readonly end: Consumed; readonly error?: unknown }>;

export const consumeOptionNames = ["handle", "deadLetters", "subscriber", "maxDeliveries", "logger"];

const defaultMaxDeliveries = 5;

/** Handles one message of a queue trigger to its end. Never rejects: what not even the dead letters took has failed. */
export function createConsume(options: ConsumeOptions, what: string, more: readonly string[] = []): Consume {
  refuseUnknown(options ?? {}, [...consumeOptionNames, ...more], what);
  const { handle, deadLetters, subscriber, maxDeliveries = defaultMaxDeliveries } = options;
  if (typeof handle !== "function")
    throw new InvalidArgumentError(`${what}: handle must be a function or a stack.`);
  optionalCount(maxDeliveries, `${what}: maxDeliveries`, 1);
  if (deadLetters !== undefined)
    requireName(subscriber, `${what}: subscriber, which dead letters are filed under,`);
  const logger = guardedLogger(options.logger ?? silentLogger);

  const isPoison = (message: TriggerMessage, error: unknown): boolean =>
    error instanceof PermanentFailure || message.deliveries >= maxDeliveries;

  return async (message) => {
    try {
      await handle(message);
      return { end: "handled" };
    } catch (error) {
      const reason = withoutPayload(describeThrown(error), message.payload);
      const fields = {
        messageId: message.messageId,
        topic: message.topic,
        deliveries: message.deliveries,
        reason,
      };
      if (deadLetters === undefined || !isPoison(message, error)) {
        logger.warn("message failed", fields);
        return { end: "failed", error };
      }
      try {
        await bury(deadLetters, subscriber!, message, reason);
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
 * Dead first, its content second: at no moment could a worker claim it. Whoever is killed in between has not
 * acknowledged the message, and its redelivery brings the content.
 */
async function bury(
  inbox: Inbox,
  subscriber: string,
  message: TriggerMessage,
  reason: string,
): Promise<void> {
  const { messageId, topic, payload, headers, correlationId } = message;
  await inbox.markDead({ source: subscriber, messageId }, reason);
  await inbox.receive({ source: subscriber, messageId, topic, payload, headers, correlationId });
}
