import { safeReason } from "../base/safe-reason.js";
import type { HandlerFunction, Handlers } from "../dispatch/handlers.js";
import { PermanentFailure, permanentFailure, RetryAfter } from "../dispatch/settlement.js";
import { isMessageFault } from "../publishers/refused-message.js";
import type { OutboxMessage } from "../queue/message.js";
import { reasons } from "../sql/reasons.js";
import type { Deliver } from "./deliver.js";
import type { Envelope } from "./envelope.js";
import { handlerFor } from "./handler-for.js";
import { heldBack } from "./held-back.js";
import type { HandleResponse } from "./responses.js";
import type { ServiceParts } from "./service-parts.js";
import { isExpired, maxRetriesOf, toEnvelope, topicOf } from "./stored-message.js";
import type { TransportResponse } from "./transport.js";

/** The outbox's handlers, one for each destination and endpoint. They send. */
export function outboxHandlers(
  parts: ServiceParts,
  deliver: Deliver,
  handleResponse: HandleResponse,
): Handlers<OutboxMessage> {
  const { options, settings, serviceId, messages, destinations, reports, now } = parts;

  const respond = async (
    destination: string,
    { messageId, messageType, correlationId, endpoint }: Envelope,
    { payload }: TransportResponse,
  ): Promise<void> => {
    if (messageType !== "Command" || handlerFor(options.onResponse, endpoint) === undefined) return;
    await handleResponse({
      endpoint,
      sourceServiceId: destination,
      inReplyTo: messageId,
      correlationId: correlationId ?? messageId,
      payload,
    });
  };

  const sendTo = (destination: string): HandlerFunction<OutboxMessage> => {
    const waiting = heldBack(parts, destination);
    return async (message, { signal }) => {
      const maxRetries = maxRetriesOf(message, settings.retry.maxRetries);
      // Its process was killed at the last attempt.
      if (message.attempt > maxRetries) throw permanentFailure(message.lastError ?? reasons.leaseExpired);
      if (isExpired(message, now())) throw permanentFailure(reasons.expired);
      const envelope = toEnvelope(message, serviceId);
      const outgoing = { messageId: envelope.messageId, destination, endpoint: envelope.endpoint };
      const startedAt = performance.now();
      try {
        await respond(destination, envelope, await deliver(destination, envelope, signal));
      } catch (error) {
        // Not tried, because the circuit breaker is open.
        if (error instanceof RetryAfter && !error.costsAttempt) throw waiting.later(error.delayMs);
        // Asked for by onResponse; or cut off, because the function's time is up.
        if (error instanceof RetryAfter || signal.aborted) throw error;
        const reason = sendError(error);
        const retry = message.attempt + 1;
        if (error instanceof PermanentFailure || retry > maxRetries) throw permanentFailure(reason);
        reports.sendFailed(outgoing, retry, maxRetries, error);
        throw new SendFailed(reason);
      }
      reports.sent(outgoing, performance.now() - startedAt, message.attempt);
      await waiting.delivered();
    };
  };

  return Object.fromEntries(
    [...destinations.keys()].flatMap((destination) => {
      const send = sendTo(destination);
      return [...messages.keys()].map((endpoint) => [topicOf(destination, endpoint), send] as const);
    }),
  );
}

class SendFailed extends Error {
  override readonly name = "SendFailed";
}

/** What the receiver or this package says is safe to keep. Of other errors only the name and the code are. */
const sendError = (error: unknown): string =>
  isMessageFault(error) ? (error as Error).message : safeReason(error);
