import { abortAfter } from "../base/abort-after.js";
import { safeReason } from "../base/safe-reason.js";
import { uuidV7 } from "../base/uuid-v7.js";
import { sleep } from "../base/wait.js";
import { RetryAfter } from "../dispatch/settlement.js";
import { InvalidOperationError } from "../errors.js";
import { isMessageFault } from "../publishers/refused-message.js";
import { optionalCount, refuseUnknown, requireDuration, requireName } from "../queue/arguments.js";
import { backoffMs } from "../queue/retry-policy.js";
import type { CommandDefinition } from "./define-messages.js";
import type { Deliver } from "./deliver.js";
import type { Envelope } from "./envelope.js";
import { wireLimits } from "./envelope-fields.js";
import { responseFrom } from "./response-payload.js";
import { policyOf } from "./retry-options.js";
import { checkHeaders, type Sender } from "./sender.js";
import type { ServiceParts } from "./service-parts.js";
import type { RequestOptions } from "./service-types.js";
import { headerNames } from "./stored-message.js";

/** A command that was sent with `request` got no response. It may have been handled all the same. */
export class RequestFailedError extends InvalidOperationError {
  override readonly code = "ONCEBOX_REQUEST_FAILED";
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
        if (attempt > maxRetries) throw failed(destination, message.endpoint, error);
        await sleep(error instanceof RetryAfter ? error.delayMs : backoffMs(policy, attempt), signal);
      }
    }
  };

  return async (endpoint, destination, payload, options = {}) => {
    refuseUnknown(options, known, "request");
    const { timeoutMs = defaultTimeoutMs, signal, correlationId = null, headers } = options;
    const { maxRetries = settings.retry.maxRetries } = options;
    requireDuration(timeoutMs, "timeoutMs");
    optionalCount(maxRetries, "maxRetries", 0);
    checkHeaders(headers, wireLimits.headers - 1); // one is added here
    if (correlationId !== null) requireName(correlationId, "correlationId");
    sender.requireDestination(destination);
    const definition = messages.get(endpoint) as CommandDefinition;
    const message: Envelope = {
      messageId: uuidV7(),
      correlationId,
      sourceServiceId: serviceId,
      messageType: "Command",
      endpoint,
      payload: JSON.parse(await sender.payloadText(endpoint, definition, payload, options)) as unknown,
      headers: { ...headers, [headerNames.replyWith]: "acknowledgement" },
    };
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
