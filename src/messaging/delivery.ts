import { singleFlight } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import { safeReason } from "../base/logger.js";
import { withoutPayload } from "../base/redaction.js";
import { inSpan, sentHeaders } from "../base/telemetry.js";
import type { HandlerFunction, Handlers } from "../dispatch/handlers.js";
import {
  describeThrown,
  PermanentFailure,
  permanentFailure,
  RetryAfter,
  withOwnLogLine,
  withOwnText,
} from "../dispatch/settlement.js";
import { isMessageFault, RefusedMessage } from "../publishers/circuit-breaker.js";
import { guarded, sendSpan } from "../publishers/publisher.js";
import type { OutboxMessage } from "../queue/message.js";
import { reasons } from "../sql/dead-letters.js";
import type { Envelope } from "./envelope.js";
import type { HandleResponse } from "./responses.js";
import type { ServiceParts } from "./service-parts.js";
import { isExpired, maxRetriesOf, toEnvelope, topicOf } from "./stored-message.js";
import type { TransportResponse } from "./transports/transport.js";

/** The outbox's handlers, one for each destination and endpoint. They send. */
export function outboxHandlers(
  parts: ServiceParts,
  deliver: Deliver,
  handleResponse: HandleResponse,
): Handlers<OutboxMessage> {
  const { settings, serviceId, messages, destinations, reports, now } = parts;

  const sendTo = (destination: string): HandlerFunction<OutboxMessage> => {
    const waiting = waitingMessages(parts, destination);
    return async (message, { signal }) => {
      const maxRetries = maxRetriesOf(message, settings.retry.maxRetries);
      // Its process was killed at the last attempt.
      if (message.attempt > maxRetries) throw endOf(message.lastError ?? reasons.leaseExpired);
      if (isExpired(message, now())) throw endOf(reasons.expired);
      const envelope = toEnvelope(message, serviceId);
      const outgoing = { messageId: envelope.messageId, destination, endpoint: envelope.endpoint };
      const startedAt = performance.now();
      try {
        const { payload } = await deliver(destination, envelope, signal);
        if (envelope.messageType === "Command") {
          const { messageId: inReplyTo, correlationId, endpoint } = envelope;
          const response = { endpoint, inReplyTo, correlationId: correlationId ?? inReplyTo, payload };
          await handleResponse({ ...response, sourceServiceId: destination });
        }
      } catch (error) {
        // Not tried, because the circuit breaker is open, which has its own line in the log.
        if (error instanceof RetryAfter && !error.costsAttempt) throw waiting.later(error.delayMs);
        if (signal.aborted) throw error; // cut off, because the function's time is up
        const reason = withoutPayload(sendError(error), message.payload);
        const retry = message.attempt + 1;
        const isAskedFor = error instanceof RetryAfter; // by onResponse
        if (!isAskedFor && (error instanceof PermanentFailure || retry > maxRetries)) throw endOf(reason);
        reports.sendFailed(outgoing, retry, maxRetries, reason);
        throw withOwnLogLine(isAskedFor ? error : new SendFailed(reason));
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

/** Messages that come back for the breaker's next trial. One would do; others may be taken by another process, or expire. */
const trialMessages = 3;
/** The others come back one by one, at this interval, so that many messages are not claimed and put back again and again. */
const spacingMs = 1_000;
const longestWaitMs = 60 * 60_000;
/** Messages may wait because of another process, and this one could deliver them: it makes them due from time to time. */
const releaseIntervalMs = 60_000;

/** The messages of one destination that wait because its circuit breaker is open. */
function waitingMessages(parts: ServiceParts, destination: string) {
  const { outbox, reports, wake } = parts;
  const now = (): number => parts.now().getTime();
  const reason = `The service "${destination}" has been failing. The message waits until its circuit breaker lets it pass.`;
  /** As the dispatcher stores it. */
  const stored = describeThrown(new RetryAfter(1, reason, false));
  let trialAt = 0;
  let trials = 0;
  let lastAt = 0;
  let releaseAt = 0; // at the first delivery: some may wait from an earlier process

  const delayMs = (time: number, waitMs: number): number => {
    if (time >= trialAt) {
      trialAt = time + waitMs;
      trials = 0;
    }
    if (trials++ < trialMessages) return waitMs;
    lastAt = Math.max(lastAt, trialAt) + spacingMs;
    if (lastAt - time <= longestWaitMs) return lastAt - time;
    lastAt = time + longestWaitMs;
    return longestWaitMs * (0.5 + Math.random() / 2);
  };

  /** One batch for each delivery, so that it takes no longer than they do. */
  const releasing = singleFlight(async () => {
    try {
      const { changed, more } = await outbox.makeDue(stored);
      if (!more) releaseAt = now() + releaseIntervalMs;
      if (changed > 0) wake();
    } catch (error) {
      const fields = { destination, error: safeReason(error) };
      reports.logger.warn("messages still wait for their destination", fields);
    }
  });

  return {
    /** The error for a message that the breaker has refused: when it is tried again. It costs no attempt. */
    later(breakerWaitMs: number): RetryAfter {
      releaseAt = 0;
      return withOwnLogLine(withOwnText(new RetryAfter(delayMs(now(), breakerWaitMs), reason, false)));
    },
    /** A message was delivered: those that wait are due. Never rejects. */
    async delivered(): Promise<void> {
      trialAt = 0;
      lastAt = 0;
      if (now() >= releaseAt) await releasing.run();
    },
  };
}

/** Ends a message. Its line in the log is that of the dead message. */
const endOf = (reason: string): PermanentFailure => withOwnLogLine(permanentFailure(reason));

class SendFailed extends Error {
  override readonly name = "SendFailed";
}

/** What the receiver or this package says is safe to keep. Of other errors only the name and the code are. */
export const sendError = (error: unknown): string =>
  isMessageFault(error) ? (error as Error).message : safeReason(error);

/** Sends a message once. Resolves when its receiver has acknowledged it. */
export type Deliver = (
  destination: string,
  message: Envelope,
  signal: AbortSignal,
) => Promise<TransportResponse>;

type DeliverOne = (
  message: Envelope,
  context: { readonly signal: AbortSignal },
) => Promise<TransportResponse>;

/** Each destination has a circuit breaker and a time limit around its transport. */
export function deliverer({ options, settings, destinations, reports }: ServiceParts): Deliver {
  const { breaker, metrics, tracing, clock } = options;
  const now = clock && (() => clock().getTime());
  const guard = omitUndefined({
    timeoutMs: settings.timeoutMs,
    breaker,
    logger: reports.logger,
    metrics,
    now,
  });
  const each = new Map(
    [...destinations.values()].map(({ transport, ...target }): [string, DeliverOne] => {
      const { serviceId } = target;
      const sendOnce: DeliverOne = async (message, { signal }) => {
        const startedAt = performance.now();
        try {
          return acknowledged(await transport.send(message, target, { signal }), serviceId);
        } finally {
          const { messageId, endpoint } = message;
          reports.sendTook({ messageId, destination: serviceId, endpoint }, performance.now() - startedAt);
        }
      };
      const send: DeliverOne = (message, context) => {
        if (tracing === undefined) return sendOnce(message, context);
        const { endpoint, messageId } = message;
        const sendTraced = () =>
          sendOnce({ ...message, headers: sentHeaders(tracing, message.headers) ?? {} }, context);
        return inSpan(tracing, sendSpan(serviceId, endpoint, messageId), sendTraced);
      };
      return [serviceId, guarded(`The service ${serviceId}`, guard, send)];
    }),
  );
  return (destination, message, signal) => each.get(destination)!(message, { signal });
}

/** A receiver that refuses one message is working, so its circuit breaker stays closed. */
function acknowledged(response: TransportResponse, serviceId: string): TransportResponse {
  if (response.acknowledged || response.duplicateDetected) return response;
  const error = response.error ?? `${serviceId} did not acknowledge the message.`;
  throw response.permanent ? permanentFailure(error) : new RefusedMessage(error);
}
