import { jsonText } from "../base/json-text.js";
import { withoutPayload } from "../base/redact.js";
import { safeReason } from "../base/safe-reason.js";
import { inSpan, processSpan } from "../base/tracing.js";
import { withinTime } from "../base/within-time.js";
import { PermanentFailure, RetryAfter } from "../dispatch/settlement.js";
import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import { handleOnce, type OnceOutcome, storedUnder } from "../middleware/handle-once.js";
import { runningRequests } from "../middleware/running-requests.js";
import { throwFailureResult } from "../middleware/throw-failure-result.js";
import type { MessageDefinition } from "./define-messages.js";
import type { Envelope } from "./envelope.js";
import { handlerFor } from "./handler-for.js";
import { responseText } from "./response-payload.js";
import type { HandleResponse } from "./responses.js";
import type { Sender } from "./sender.js";
import { sentCommand } from "./sent-command.js";
import type { AnyHandler } from "./service-options.js";
import type { ServiceParts } from "./service-parts.js";
import type { ReceiveContext } from "./service-types.js";
import { headerNames } from "./stored-message.js";
import { type Handling, timedTransaction } from "./timed-transaction.js";
import type { TransportResponse } from "./transport.js";
import { validatedPayload } from "./validate-payload.js";

/** Handles a message whose sender is known. Never rejects: the sender is told why a message is not acknowledged. */
export type Receive = (message: Envelope) => Promise<TransportResponse>;

export function createReceive(parts: ServiceParts, sender: Sender, handleResponse: HandleResponse): Receive {
  const { settings, inbox, inboxDb, reports } = parts;
  const { tracing } = parts.options;
  const running = runningRequests();

  const handle = async (
    message: Envelope,
    { definition, handler }: ReturnType<typeof handlerOf>,
    { tx, signal }: Handling,
  ): Promise<unknown> => {
    const { payload, messageType: _, ...rest } = message;
    const context: ReceiveContext = { ...rest, tx, signal };
    const value = await validatedPayload(definition, payload, message.endpoint);
    return throwFailureResult(await handler(value, context));
  };

  /** A message without a response: recording it first costs one statement, and makes a second delivery wait. */
  const once = async (message: Envelope, handling: Handling, starting: () => void) => {
    const { sourceServiceId: source, messageId, endpoint } = message;
    const found = handlerOf(parts, message);
    const { definition } = found;
    const { tx } = handling;
    const key = { source, messageId };
    if (definition.messageType !== "Command") {
      if (!(await inbox.markProcessed(key, { tx }))) return known;
      starting();
      await handle(message, found, handling);
      return { kind: "handled", result: undefined } as const;
    }
    return handleOnce<string | undefined>(
      { dialect: inboxDb.dialect, inbox, tx },
      {
        key,
        topic: endpoint,
        starting,
        async handle() {
          const returned = await handle(message, found, handling);
          const text = await responseText(definition, returned, endpoint, settings.maxResponseBytes);
          if (wantsResponse(parts, message)) await sendResponse(sender, message, text, handling);
          return { result: text, stored: text };
        },
      },
    );
  };

  /** A second delivery in this process waits for the first. When that has failed, the second is handled. */
  const deduplicated = async (message: Envelope): Promise<OnceOutcome<string | undefined>> => {
    const key = JSON.stringify([message.sourceServiceId, message.messageId]);
    for (;;) {
      const outcome = await running.join(key, (starting) =>
        timedTransaction(parts, (handling) => once(message, handling, starting)),
      );
      if (outcome.kind !== "running") return outcome;
      await withinTime(settings.handlerTimeoutMs, outcome.ended, stillHandled);
    }
  };

  const received = async (message: Envelope, startedAt: number): Promise<TransportResponse> => {
    if (message.messageType === "Response") return receivedResponse(parts, message, handleResponse);
    const outcome = await deduplicated(message);
    if (outcome.kind === "handled") {
      reports.processed(incoming(message), performance.now() - startedAt);
      return acknowledgement(outcome.result, false);
    }
    const { sourceServiceId: source, messageId } = message;
    const stored = await storedUnder(inbox, { source, messageId });
    // A transaction that only found the message known holds the lock too, so a locked message may be known.
    if (outcome.kind !== "known" && stored === undefined) throw stillHandled();
    reports.duplicate(incoming(message));
    return acknowledgement(stored?.payload, true);
  };

  const traced = (message: Envelope, startedAt: number): Promise<TransportResponse> =>
    tracing === undefined
      ? received(message, startedAt)
      : inSpan(tracing, receiveSpan(message), () => received(message, startedAt));

  return async (message) => {
    try {
      return await traced(message, performance.now());
    } catch (error) {
      reports.notProcessed(incoming(message), error);
      // A handler's own error may quote a secret, so its sender gets no more than its name.
      const told = withoutPayload(toldReason(error), jsonText(message.payload));
      const refused = { acknowledged: false, duplicateDetected: false, error: told } as const;
      return error instanceof PermanentFailure ? { ...refused, permanent: true } : refused;
    }
  };
}

const receiveSpan = ({ messageId, sourceServiceId, endpoint, correlationId, headers }: Envelope) =>
  processSpan(endpoint, headers, {
    "messaging.message.id": messageId,
    ...(correlationId === null ? {} : { "messaging.message.conversation_id": correlationId }),
    "oncebox.source": sourceServiceId,
  });

const known = { kind: "known" } as const;

/** What a handler gives as the reason of a failure is meant for the sender. */
const toldReason = (error: unknown): string =>
  error instanceof PermanentFailure || error instanceof RetryAfter ? error.message : safeReason(error);

const incoming = ({ messageId, sourceServiceId, endpoint }: Envelope) => ({
  messageId,
  sourceServiceId,
  endpoint,
});

const stillHandled = () =>
  new InvalidOperationError("The message is still being handled. Send it again later.");

/** The text of a message without a response is empty or missing. */
const acknowledgement = (text: string | undefined, duplicateDetected: boolean): TransportResponse =>
  text
    ? { acknowledged: true, duplicateDetected, payload: JSON.parse(text) as unknown }
    : { acknowledged: true, duplicateDetected };

function handlerOf(
  { options, messages, serviceId }: ServiceParts,
  { endpoint, messageType }: Envelope,
): { readonly definition: MessageDefinition; readonly handler: AnyHandler } {
  const definition = messages.get(endpoint);
  const handler = handlerFor(options.receive, endpoint);
  if (definition === undefined || handler === undefined)
    throw new InvalidOperationError(
      `The service "${serviceId}" has no handler for the endpoint "${endpoint}".`,
    );
  if (definition.messageType !== messageType)
    throw new InvalidArgumentError(`"${endpoint}" is a ${definition.messageType}, not a ${messageType}.`);
  return { definition, handler };
}

/**
 * Whether the response is sent as a message, too. The sender must be a destination. On two databases the message and the
 * handler's work could not commit at once, so the response is in the acknowledgement only.
 */
function wantsResponse({ destinations, outboxDb, inboxDb }: ServiceParts, message: Envelope): boolean {
  const isDestination = destinations.has(message.sourceServiceId);
  return isDestination && outboxDb === inboxDb && message.headers[headerNames.replyWith] === undefined;
}

async function sendResponse(
  sender: Sender,
  { sourceServiceId, messageId, correlationId, endpoint }: Envelope,
  text: string,
  { tx }: Handling,
): Promise<void> {
  const headers = { [headerNames.inReplyTo]: messageId };
  const response = {
    destination: sourceServiceId,
    endpoint,
    messageType: "Response",
    text,
    headers,
  } as const;
  await sender.enqueue(response, { tx, correlationId: correlationId ?? messageId });
}

async function receivedResponse(
  parts: ServiceParts,
  message: Envelope,
  handleResponse: HandleResponse,
): Promise<TransportResponse> {
  const { reports } = parts;
  const { endpoint, sourceServiceId, payload } = message;
  const startedAt = performance.now();
  const command = await sentCommand(parts, message);
  const outcome =
    command === "handled"
      ? "known"
      : await handleResponse({ endpoint, sourceServiceId, ...command, payload });
  if (outcome === "known") reports.duplicate(incoming(message));
  else reports.processed(incoming(message), performance.now() - startedAt);
  return acknowledgement(undefined, outcome === "known");
}
