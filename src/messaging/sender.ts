import { abortAfter, sleep } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import { uuidV7 } from "../base/uuid.js";
import { PermanentFailure, RetryAfter } from "../dispatch/settlement.js";
import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import { currentScope } from "../middleware/transaction.js";
import {
  checkCall,
  optionalLimit,
  optionalName,
  refuseUnknown,
  requireDuration,
} from "../queue/arguments.js";
import { backoffMs } from "../queue/retry-policy.js";
import { validated } from "../queue/standard-schema.js";
import { requireExecutor, type SqlExecutor } from "../sql/driver.js";
import { canonicalJson } from "./canonical-json.js";
import { type Deliver, sendError } from "./delivery.js";
import { type Envelope, headerProblem, type MessageType, wireLimits } from "./envelope.js";
import {
  type CommandDefinition,
  type MessageDefinition,
  type PushCallDefinition,
  type RequestOptions,
  type SendOptions,
  validatedPayload,
} from "./messages.js";
import { responseFrom } from "./responses.js";
import { maxRetriesLimit, policyOf } from "./service-options.js";
import { type ServiceParts, wakingTransaction } from "./service-parts.js";
import { requireMessageSize } from "./sign-envelope.js";
import { headerNames, topicOf } from "./stored-message.js";

interface OutgoingText {
  readonly destination: string;
  readonly endpoint: string;
  readonly messageType: MessageType;
  /** The payload in JSON. */
  readonly text: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export type Sender = ReturnType<typeof createSender>;

const sendOptionNames = ["tx", "correlationId", "maxRetries", "ttlMs", "partitionKey", "headers", "signal"];

/** Writes messages to the outbox. Nothing is sent here. */
export function createSender(parts: ServiceParts) {
  const { settings, serviceId, destinations, outbox, outboxDb, reports, sentIn, wake, now } = parts;

  const requireDestination = (destination: string): void => {
    if (destinations.has(destination)) return;
    throw new InvalidArgumentError(
      `"${destination}" is not a destination of the service "${serviceId}". Known: ${[...destinations.keys()].join(", ") || "none"}.`,
    );
  };

  /** The caller's transaction, or that of the handler that runs. */
  const transactionFor = (given: SqlExecutor | undefined): SqlExecutor | undefined => {
    const scope = currentScope();
    const isOther = scope !== undefined && scope.db !== outboxDb && scope.db === parts.inboxDb;
    if (isOther && (given === undefined || given === scope.tx))
      throw new InvalidOperationError(
        "A handler cannot send when outbox and inbox are on two databases: the message and the handler's work could not commit at once. Give createService one database.",
      );
    return given ?? (scope?.db === outboxDb ? scope.tx : undefined);
  };

  /** Writes a message to the outbox whose payload was validated. Returns its id. */
  const enqueue = async (message: OutgoingText, options: SendOptions): Promise<string> => {
    const { destination, endpoint, messageType, text } = message;
    const { correlationId, partitionKey, signal } = options;
    const { maxRetries = settings.retry.maxRetries, ttlMs = settings.ttlMs } = options;
    const tx = transactionFor(options.tx);
    const sent = { ...options.headers, ...message.headers };
    const wire = { sourceServiceId: serviceId, messageType, endpoint, payloadText: text, headers: sent };
    requireMessageSize({ ...wire, correlationId: correlationId ?? null }, settings.maxBodyBytes);
    const headers = {
      ...sent,
      [headerNames.messageType]: messageType,
      [headerNames.source]: serviceId,
      [headerNames.maxRetries]: String(maxRetries),
    };
    const messageId = await outbox.enqueue(
      {
        topic: topicOf(destination, endpoint),
        payload: text,
        headers,
        expiresAt: new Date(now().getTime() + ttlMs),
        ...omitUndefined({ correlationId, partitionKey }),
      },
      omitUndefined({ tx, signal }),
    );
    reports.enqueued({ messageId, destination, endpoint });
    if (tx === undefined) wake();
    else sentIn.add(tx);
    return messageId;
  };

  /** The payload of a message in JSON, validated as its receiver will validate it. */
  const payloadText = async (
    endpoint: string,
    definition: MessageDefinition,
    payload: unknown,
  ): Promise<string> => {
    const text = canonicalJson(payload, `The payload of "${endpoint}"`);
    await validatedPayload(definition, JSON.parse(text), endpoint);
    return text;
  };

  /** Validates a message and writes it to the outbox. Returns its id. */
  const send = async (
    endpoint: string,
    destination: string,
    payload: unknown,
    options: SendOptions = {},
  ): Promise<string> => {
    const definition = parts.messages.get(endpoint)!;
    requireDestination(destination);
    checkSendOptions(options, settings.inboxRetentionMs);
    const text = await payloadText(endpoint, definition, payload);
    return enqueue({ destination, endpoint, messageType: definition.messageType, text }, options);
  };
  return { send, enqueue, payloadText, requireDestination };
}

function checkSendOptions(options: SendOptions, inboxRetentionMs: number): void {
  checkCall(options, sendOptionNames, "send");
  const { tx, maxRetries, ttlMs } = options;
  if (tx !== undefined) requireExecutor(tx);
  optionalLimit(maxRetries, "maxRetries", 0, maxRetriesLimit);
  checkHeaders(options.headers);
  if (ttlMs === undefined) return;
  requireDuration(ttlMs, "ttlMs");
  if (ttlMs > inboxRetentionMs)
    throw new InvalidArgumentError(
      `ttlMs must be at most inboxRetentionMs (${inboxRetentionMs}), not ${ttlMs}: a receiver would no longer know the message.`,
    );
}

/** `own`: how many headers the service adds. */
function checkHeaders(headers: SendOptions["headers"], own = 0): void {
  const count = Object.keys(headers ?? {}).length;
  if (count > wireLimits.headers - own)
    throw new InvalidArgumentError(
      `There are ${count} headers; at most ${wireLimits.headers - own} are sent. A receiver would refuse more.`,
    );
  const wrong = Object.entries(headers ?? {})
    .filter(([name, value]) => name.startsWith("rf-") || headerProblem(name, value) !== undefined)
    .map(([name]) => name);
  if (wrong.length > 0)
    throw new InvalidArgumentError(
      `headers: ${wrong.join(", ")}. Names are in lower case (a-z, 0-9, ".", "_", "-") and do not begin with "rf-"; values are texts of at most ${wireLimits.headerValue} characters without control characters. A receiver would refuse others.`,
    );
}

/** A command that was sent with `request` got no response. It may have been handled all the same. */
export class RequestFailedError extends InvalidOperationError {
  static override readonly code = "ONCEBOX_REQUEST_FAILED";
  override readonly code = RequestFailedError.code;
  override readonly name = "RequestFailedError";
}

const defaultRequestMs = 30_000;
const requestOptionNames = ["timeoutMs", "signal", "correlationId", "maxRetries", "headers"];

/** Sends a command and waits for its response. Each retry has the same message id, so the command is handled once. */
export function requester(parts: ServiceParts, sender: Sender, deliver: Deliver) {
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
        if (attempt > maxRetries || error instanceof PermanentFailure) {
          const what = `${destination} did not respond to "${message.endpoint}"`;
          throw new RequestFailedError(`${what}: ${sendError(error)}`, { cause: error });
        }
        await sleep(error instanceof RetryAfter ? error.delayMs : backoffMs(policy, attempt), signal);
      }
    }
  };

  return async (
    endpoint: string,
    destination: string,
    payload: unknown,
    options: RequestOptions = {},
  ): Promise<unknown> => {
    refuseUnknown(options, requestOptionNames, "request");
    const { timeoutMs = defaultRequestMs, signal, headers } = options;
    const { maxRetries = settings.retry.maxRetries } = options;
    requireDuration(timeoutMs, "timeoutMs");
    optionalLimit(maxRetries, "maxRetries", 0, maxRetriesLimit);
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
    requireMessageSize({ ...fields, payloadText }, settings.maxBodyBytes);
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

type WrappedFunction = (input: unknown, context: { readonly tx: SqlExecutor }) => unknown;

/** Wraps a function: its call and the message about it are in one transaction. */
export const wrapPushCall =
  (parts: ServiceParts, sender: Sender, endpoint: string) =>
  (
    destination: string,
    call: WrappedFunction,
  ): ((input: unknown, options?: SendOptions) => Promise<unknown>) => {
    const definition = parts.messages.get(endpoint) as PushCallDefinition;
    const { outboxDb, settings } = parts;
    sender.requireDestination(destination);

    const record = async (input: unknown, tx: SqlExecutor, options: SendOptions): Promise<unknown> => {
      const inputText = canonicalJson(input, `The input of "${endpoint}"`);
      const taken = await validated(definition.input, JSON.parse(inputText), `The input of "${endpoint}"`);
      const output = await call(taken, { tx });
      const payload = { input: JSON.parse(inputText) as unknown, output };
      const text = await sender.payloadText(endpoint, definition, payload);
      await sender.enqueue({ destination, endpoint, messageType: "PushCall", text }, { ...options, tx });
      return output;
    };

    return async (input, options = {}) => {
      checkSendOptions(options, settings.inboxRetentionMs);
      const scope = currentScope();
      const joined = options.tx ?? (scope?.db === outboxDb ? scope.tx : undefined);
      if (joined !== undefined) return record(input, joined, options);
      return wakingTransaction(parts, (tx) => record(input, tx, options));
    };
  };
