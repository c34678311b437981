import { withinTime } from "../base/async.js";
import { type Logger, safeReason } from "../base/logger.js";
import { jsonText, withoutPayload } from "../base/redaction.js";
import { inSpan, processSpan } from "../base/telemetry.js";
import { PermanentFailure, RetryAfter } from "../dispatch/settlement.js";
import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import type { AdminApi } from "../http/admin-api.js";
import { openBodies, readBody } from "../http/body.js";
import {
  emptyResponse,
  jsonResponse,
  type PlainRequest,
  type PlainResponse,
  type PlainRoute,
  webRoute,
} from "../http/plain.js";
import { routeTable } from "../http/routes.js";
import { handleOnce, type OnceOutcome, runningCalls, storedUnder } from "../middleware/handle-once.js";
import { throwFailureResult } from "../middleware/transaction.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { Envelope } from "./envelope.js";
import { type MessageDefinition, type ReceiveContext, validatedPayload } from "./messages.js";
import { openEnvelope } from "./open-envelope.js";
import { type HandleResponse, responseText, sentCommand } from "./responses.js";
import type { Sender } from "./sender.js";
import { type AnyHandler, type Endpoints, handlerFor } from "./service-options.js";
import { type Handling, type ServiceParts, timedTransaction } from "./service-parts.js";
import { headerNames } from "./stored-message.js";
import type { TransportResponse } from "./transports/transport.js";

/** Receives the messages of a service. */
export interface ServiceReceiver {
  /** For hosts with requests of the web: verifies, deduplicates and handles a message, and serves the diagnostics. */
  fetch(request: Request): Promise<Response>;
  /** The same for `listen`. */
  readonly respond: PlainRoute;
  /** The same for hosts whose own routes lead here: a request is a message unless its path ends as one of the diagnostics. */
  handle(request: HandledRequest): Promise<PlainResponse>;
  /** Whether a path is the receiver's or one of the diagnostics. */
  serves(path: string): boolean;
  /** Larger messages are refused. */
  readonly maxBodyBytes: number;
  /** The service's. */
  readonly logger: Logger;
  /** For a sender in the same process: nothing is serialised and nothing is verified. */
  receive(message: Envelope): Promise<TransportResponse>;
}

/** Without a path it is a message. */
export type HandledRequest = Pick<PlainRequest, "method" | "headers" | "body"> & Partial<PlainRequest>;

const receivePath = "receive";

/** The diagnostics of a service, behind its prefix. */
export const diagnosticPaths = [
  { method: "GET", path: "health" },
  { method: "GET", path: "outbox/stats" },
  { method: "GET", path: "outbox/failed" },
  { method: "POST", path: "outbox/{messageId}/retry" },
  { method: "GET", path: "inbox/stats" },
] as const;
export type DiagnosticPath = (typeof diagnosticPaths)[number]["path"];
/** The parts of the longest of these paths. */
const mostParts = 3;

/** The receiver for hosts that speak HTTP: `POST {prefix}/receive`, and the diagnostics beside it. */
export function receiverHttp(
  parts: ServiceParts,
  receive: Receive,
  diagnostics: () => Promise<AdminApi>,
): Omit<ServiceReceiver, "receive"> {
  const { prefix, maxBodyBytes } = parts.settings;
  const find = routeTable([{ method: "POST", path: receivePath }, ...diagnosticPaths]);
  const unverified = openBodies({ maxBytes: Math.max(unverifiedBytes, maxBodyBytes) });

  const handleMessage = async (request: HandledRequest): Promise<PlainResponse> => {
    if (request.method !== "POST") return emptyResponse(405, { allow: "POST" });
    const body = await readBody(request, { maxBytes: maxBodyBytes, withinMs: bodyMs, among: unverified });
    if (typeof body === "string") {
      parts.reports.malformed(body);
      return emptyResponse(statuses[body]);
    }
    const opened = openRequest(parts, body);
    if (typeof opened === "number") return emptyResponse(opened);
    const { acknowledged, duplicateDetected, payload, error, permanent } = await receive(opened);
    return acknowledged
      ? jsonResponse(200, { acknowledged, duplicateDetected, payload: payload ?? null })
      : jsonResponse(500, { acknowledged, error, permanent }); // JSON leaves out a member that is undefined
  };
  /** `path` is the part behind the prefix. */
  const answer = async (request: PlainRequest, path: string | undefined): Promise<PlainResponse> => {
    if (path === receivePath) return handleMessage(request);
    if (!isKnown(path)) return emptyResponse(404);
    return (await diagnostics())(request, path);
  };
  const isKnown = (path: string | undefined): boolean => find("GET", path).kind !== "not found";
  const behindPrefix = (path: string): string | undefined =>
    path.startsWith(`${prefix}/`) ? path.slice(prefix.length + 1) : undefined;
  /** A gateway's stage or the route of a function may stand before the prefix, or in place of it. */
  const pathAtEnd = (path: string): string => {
    const all = path.split("/");
    const ends = Array.from({ length: mostParts }, (_, index) => all.slice(-1 - index).join("/"));
    return ends.find(isKnown) ?? receivePath;
  };

  const respond: ServiceReceiver["respond"] = (request) => answer(request, behindPrefix(request.path));
  return {
    handle: (request) =>
      request.path === undefined
        ? handleMessage(request)
        : answer(request as PlainRequest, pathAtEnd(request.path)),
    respond,
    serves: (path) => isKnown(behindPrefix(path)),
    fetch: webRoute(respond),
    maxBodyBytes,
    logger: parts.reports.logger,
  };
}

/** A sender gives up after 30 s by default. */
const bodyMs = 30_000;
/** All bodies that are read at the same time, before their signatures are verified. */
const unverifiedBytes = 64 * 1_048_576;
const statuses = { "too large": 413, malformed: 400, "too slow": 408, "too many": 503 } as const;

/** Verifies the body of a request. One that is refused leaves a line in the log, and its sender gets no detail. */
function openRequest(parts: ServiceParts, body: Uint8Array): Envelope | 400 | 401 | 413 {
  const { settings, serviceId, reports } = parts;
  const opened = openEnvelope(body, {
    serviceId,
    secretsOf: (source) => secretsOfSource(parts, source),
    mayCall: (message) => mayCall(parts, message),
    now: new Date(),
    toleranceMs: settings.toleranceMs,
    maxBytes: settings.maxBodyBytes,
  });
  if (opened.kind === "opened") return opened.envelope;
  const { reason } = opened;
  if (opened.kind === "refused") {
    const { messageId, sourceServiceId, endpoint } = opened;
    if (reason === "endpoint not allowed") reports.notAllowed({ messageId, sourceServiceId, endpoint });
    else reports.notVerified({ messageId, sourceServiceId }, reason);
    return 401;
  }
  reports.malformed(reason);
  return reason === "too large" ? 413 : 400;
}

/** Those of the source, and those of the destination of the same name. */
function secretsOfSource(
  { destinations, options: { sources = {} } }: ServiceParts,
  source: string,
): readonly string[] {
  const own = Object.hasOwn(sources, source) ? sources[source]!.secrets : [];
  return [...own, ...(destinations.get(source)?.secrets ?? [])];
}

/** A response needs no endpoint: it is accepted where this service has sent its command. */
function mayCall(
  { options: { sources = {}, destinations = {} } }: ServiceParts,
  {
    sourceServiceId: source,
    endpoint,
    messageType,
  }: Pick<Envelope, "sourceServiceId" | "endpoint" | "messageType">,
): boolean {
  if (messageType === "Response") return true;
  const own = (peers: Readonly<Record<string, { readonly endpoints?: Endpoints }>>) =>
    Object.hasOwn(peers, source) ? peers[source]!.endpoints : undefined;
  return [own(sources), own(destinations)].some(
    (endpoints) => endpoints === "*" || (endpoints?.includes(endpoint) ?? false),
  );
}

/** Handles a message whose sender is known. Never rejects: the response says why a message is not acknowledged. */
type Receive = (message: Envelope) => Promise<TransportResponse>;

export function createMessageReceiver(
  parts: ServiceParts,
  sender: Sender,
  handleResponse: HandleResponse,
): Receive {
  const { settings, inbox, inboxDb, reports } = parts;
  const { tracing } = parts.options;
  const join = runningCalls();

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
      if (!(await inbox.markProcessed(key, { tx }))) return { kind: "known" } as const;
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
          await sendResponse(parts, sender, message, text, tx);
          return { result: text, stored: text };
        },
      },
    );
  };

  /** A second delivery in this process waits for the first. When that has failed, the second is handled. */
  const deduplicated = async (message: Envelope): Promise<OnceOutcome<string | undefined>> => {
    const key = JSON.stringify([message.sourceServiceId, message.messageId]);
    for (;;) {
      const outcome = await join(key, (starting) =>
        timedTransaction(parts, (handling) => once(message, handling, starting)),
      );
      if (outcome.kind !== "running") return outcome;
      await withinTime(settings.handlerTimeoutMs, outcome.ended, stillHandled);
    }
  };

  const received = async (message: Envelope): Promise<TransportResponse> => {
    const { sourceServiceId, messageId, endpoint, payload } = message;
    if (message.messageType === "Response") {
      const command = await sentCommand(parts, message);
      const outcome =
        command === "handled"
          ? "duplicate"
          : await handleResponse({ endpoint, sourceServiceId, ...command, payload });
      return acknowledgement(undefined, outcome === "duplicate");
    }
    const outcome = await deduplicated(message);
    if (outcome.kind === "handled") return acknowledgement(outcome.result, false);
    const stored = await storedUnder(inbox, { source: sourceServiceId, messageId });
    // A transaction that only found the message known holds the lock too, so a locked message may be known.
    if (outcome.kind !== "known" && stored === undefined) throw stillHandled();
    return acknowledgement(stored?.payload, true);
  };

  const reported = async (message: Envelope): Promise<TransportResponse> => {
    const startedAt = performance.now();
    const response = await received(message);
    if (response.duplicateDetected) reports.duplicate(incoming(message));
    else reports.processed(incoming(message), performance.now() - startedAt);
    return response;
  };

  return async (message) => {
    try {
      if (tracing === undefined) return await reported(message);
      return await inSpan(tracing, receiveSpan(message), () => reported(message));
    } catch (error) {
      reports.notProcessed(incoming(message), error);
      // A handler's own error may quote a secret, so its sender gets no more than its name.
      const reason = withoutPayload(reasonFor(error), jsonText(message.payload));
      const refused = { acknowledged: false, duplicateDetected: false, error: reason } as const;
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

/** What a handler gives as the reason of a failure is meant for the sender. */
const reasonFor = (error: unknown): string =>
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
 * Sends the response as a message, too, where the sender is a destination and has not said that the acknowledgement is
 * enough. On two databases the message and the handler's work could not commit at once.
 */
async function sendResponse(
  { destinations, outboxDb, inboxDb }: ServiceParts,
  sender: Sender,
  { sourceServiceId: destination, messageId, correlationId, endpoint, headers }: Envelope,
  text: string,
  tx: SqlExecutor,
): Promise<void> {
  const isWanted = outboxDb === inboxDb && headers[headerNames.replyWith] === undefined;
  if (!isWanted || !destinations.has(destination)) return;
  const inReplyTo = { [headerNames.inReplyTo]: messageId };
  await sender.enqueue(
    { destination, endpoint, messageType: "Response", text, headers: inReplyTo },
    { tx, correlationId: correlationId ?? messageId },
  );
}
