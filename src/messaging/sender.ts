import { defined } from "../base/defined.js";
import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import { currentScope } from "../middleware/current-transaction.js";
import { optionalCount, requireDuration } from "../queue/arguments.js";
import { checkCall } from "../queue/check-call.js";
import type { SqlExecutor } from "../sql/driver.js";
import { requireExecutor } from "../sql/require-executor.js";
import type { MessageDefinition } from "./define-messages.js";
import type { MessageType } from "./envelope.js";
import { headerProblem, wireLimits } from "./envelope-fields.js";
import { requireSize } from "./message-size.js";
import { mostRetries } from "./retry-options.js";
import { serialisePayload } from "./serialise-payload.js";
import type { ServiceParts } from "./service-parts.js";
import type { SendOptions } from "./service-types.js";
import { headerNames, topicOf } from "./stored-message.js";
import { validatedPayload } from "./validate-payload.js";

export interface OutgoingText {
  readonly destination: string;
  readonly endpoint: string;
  readonly messageType: MessageType;
  /** The payload in JSON. */
  readonly text: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Sender {
  /** Validates a message and writes it to the outbox. Returns its id. */
  send(endpoint: string, destination: string, payload: unknown, options?: SendOptions): Promise<string>;
  /** Writes a message to the outbox whose payload was validated. */
  enqueue(message: OutgoingText, options: SendOptions): Promise<string>;
  /** The payload of a message in JSON, validated as its receiver will validate it. */
  payloadText(endpoint: string, definition: MessageDefinition, payload: unknown): Promise<string>;
  requireDestination(destination: string): void;
}

const known = ["tx", "correlationId", "maxRetries", "ttlMs", "partitionKey", "headers", "signal"];

/** Writes messages to the outbox. Nothing is sent here. */
export function createSender(parts: ServiceParts): Sender {
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
    if (isOther && (given === undefined || given === scope.tx)) throw onTwoDatabases();
    return given ?? (scope?.db === outboxDb ? scope.tx : undefined);
  };

  const enqueue: Sender["enqueue"] = async (message, options) => {
    const { destination, endpoint, messageType, text } = message;
    const {
      correlationId,
      partitionKey,
      signal,
      maxRetries = settings.retry.maxRetries,
      ttlMs = settings.ttlMs,
    } = options;
    const tx = transactionFor(options.tx);
    const sent = { ...options.headers, ...message.headers };
    const wire = { sourceServiceId: serviceId, messageType, endpoint, payloadText: text, headers: sent };
    requireSize({ ...wire, correlationId: correlationId ?? null }, settings.maxBodyBytes);
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
        ...defined({ correlationId, partitionKey }),
      },
      defined({ tx, signal }),
    );
    reports.enqueued({ messageId, destination, endpoint });
    if (tx === undefined) wake();
    else sentIn.add(tx);
    return messageId;
  };

  const payloadText: Sender["payloadText"] = async (endpoint, definition, payload) => {
    const text = serialisePayload(payload, `The payload of "${endpoint}"`);
    const bytes = Buffer.byteLength(text);
    if (bytes > settings.maxBodyBytes)
      throw new InvalidArgumentError(
        `The payload of "${endpoint}" has ${bytes} bytes; at most ${settings.maxBodyBytes} are sent (maxBodyBytes).`,
      );
    await validatedPayload(definition, JSON.parse(text), endpoint);
    return text;
  };

  return {
    enqueue,
    payloadText,
    requireDestination,
    async send(endpoint, destination, payload, options = {}) {
      const definition = parts.messages.get(endpoint)!;
      requireDestination(destination);
      checkOptions(options, settings.inboxRetentionMs);
      const text = await payloadText(endpoint, definition, payload);
      return enqueue({ destination, endpoint, messageType: definition.messageType, text }, options);
    },
  };
}

export function checkOptions(options: SendOptions, inboxRetentionMs: number): void {
  checkCall(options, known, "send");
  const { tx, maxRetries, ttlMs } = options;
  if (tx !== undefined) requireExecutor(tx);
  checkRetries(maxRetries);
  checkHeaders(options.headers);
  if (ttlMs === undefined) return;
  requireDuration(ttlMs, "ttlMs");
  if (ttlMs > inboxRetentionMs)
    throw new InvalidArgumentError(
      `ttlMs must be at most inboxRetentionMs (${inboxRetentionMs}), not ${ttlMs}: a receiver would no longer know the message.`,
    );
}

export function checkRetries(maxRetries: number | undefined): void {
  optionalCount(maxRetries, "maxRetries", 0);
  if ((maxRetries ?? 0) > mostRetries)
    throw new InvalidArgumentError(`maxRetries must be at most ${mostRetries}, not ${maxRetries}.`);
}

/** `own`: how many headers the service adds. */
export function checkHeaders(headers: SendOptions["headers"], own = 0): void {
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

const onTwoDatabases = () =>
  new InvalidOperationError(
    "A handler cannot send when outbox and inbox are on two databases: the message and the handler's work could not commit at once. Give createService one database.",
  );
