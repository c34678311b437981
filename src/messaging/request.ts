import { abortAfter } from "../base/abort-after.js";
import { safeReason } from "../base/safe-reason.js";
import { uuidV7 } from "../base/uuid-v7.js";
import { sleep } from "../base/wait.js";
import { PermanentFailure, RetryAfter } from "../dispatch/settlement.js";
import { InvalidOperationError } from "../errors.js";
import { isMessageFault } from "../publishers/refused-message.js";
import { optionalName, refuseUnknown, requireDuration } from "../queue/arguments.js";
import { backoffMs } from "../queue/retry-policy.js";
import type { CommandDefinition } from "./define-messages.js";
import type { Deliver } from "./deliver.js";
import type { Envelope } from "./envelope.js";
import { requireSize } from "./message-size.js";
import { responseFrom } from "./response-payload.js";
import { policyOf } from "./retry-options.js";
import { checkHeaders, checkRetries, type Sender } from "./sender.js";
import type { ServiceParts } from "./service-parts.js";
import type { RequestOptions } from "./service-types.js";
import { headerNames } from "./stored-message.js";

/** A command that was sent with `request` got no response. It may have been handled all the same. */
export class RequestFailedError extends InvalidOperationError {
  static override readonly code = "ONCEBOX_REQUEST_FAILED";
  override readonly code = RequestFailedError.code;
  override readonly name = "RequestFailedError";
}

export type SendRequest = (
  endpoint: string,
  destination: string,
  payload: unknown,
  options?: RequestOptions,
) => Promise<unknown>;

const defaultTimeoutMs = 30_000;
const known = ["timeoutMs", "signal", "correlationId", "maxRetries", "headers"];

/** Sends a command and waits for its response. Each retry has the same message id, so the command is handled once. */
export function requester(parts: ServiceParts, sender: Sender, deliver: Deliver): SendRequest {
  const { serviceId, messages, settings } = parts;
  const policy = policyOf(settings.retry);

  const attempts = async (
    destination: string,
    message: Envelope,
    maxRetries: number,
    signal: AbortSignal,
  ): Promise<unknown> => {
    for (let attempt = 1; ; attempt++) {
      try {
        return (await deliver(destination, message, signal)).payload;
      } catch (error) {
        signal.throwIfAborted();
        if (attempt > maxRetries || error instanceof PermanentFailure)
          throw failed(destination, message.endpoint, error);
        await sleep(error instanceof RetryAfter ? error.delayMs : backoffMs(policy, attempt), signal);
      }
    }
  };

  return async (endpoint, destination, payload, options = {}) => {
    refuseUnknown(options, known, "request");
    const { timeoutMs = defaultTimeoutMs, signal, headers } = options;
    const { maxRetries = settings.retry.maxRetries } = options;
    requireDuration(timeoutMs, "timeoutMs");
    checkRetries(maxRetries);
    checkHeaders(headers, 1);
    // Before it is sent: a transport that cannot sign it would count against the destination's circuit breaker.
    const correlationId = optionalName(options.correlationId, "correlationId");
    sender.requireDestination(destination);
    const definition = messages.get(endpoint) as CommandDefinition;
    const payloadText = await sender.payloadText(endpoint, definition, payload);
    const fields = {
      correlationId,
      sourceServiceId: serviceId,
      messageType: "Command",
      endpoint,
      headers: { ...headers, [headerNames.replyWith]: "acknowledgement" },
    } as const;
    requireSize({ ...fields, payloadText }, settings.maxBodyBytes);
    const message: Envelope = { ...fields, messageId: uuidV7(), payload: JSON.parse(payloadText) as unknown };
    const response = await abortAfter(
      timeoutMs,
      (inTime) => attempts(destination, message, maxRetries, inTime),
      () => new RequestFailedError(`${destination} did not respond to "${endpoint}" within ${timeoutMs} ms.`),
      signal,
    );
    return responseFrom(definition, response, endpoint);
  };
}

function failed(destination: string, endpoint: string, error: unknown): RequestFailedError {
  const reason = isMessageFault(error) ? (error as Error).message : safeReason(error);
  return new RequestFailedError(`${destination} did not respond to "${endpoint}": ${reason}`, {
    cause: error,
  });
}
