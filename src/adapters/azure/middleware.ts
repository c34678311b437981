import type { HttpRequest, HttpResponseInit, InvocationContext } from "@azure/functions";
import { timeBudget } from "../../base/async.js";
import { InvalidArgumentError, InvalidOperationError } from "../../errors.js";
import {
  attributeNames,
  type ConsumeOptions,
  consumeBatch,
  createConsume,
  headersFrom,
  type TriggerMessage,
  triggerMessage,
} from "../../middleware/consume.js";
import type { HttpHandler } from "../../middleware/idempotent-http.js";
import { openEnvelope } from "../../publishers/azure.js";
import { optionalCount } from "../../queue/arguments.js";
import { requestFromHost, toHttpResponse } from "./http-trigger.js";

/** Options of an Azure function that consumes a queue. */
export interface AzureQueueOptions extends ConsumeOptions {
  /** The topic of messages without one: "service-bus" or "storage-queue" by default. */
  readonly topic?: string;
  /** Messages or sessions of a batch (`cardinality: "many"`) that are handled at once: 4 by default. */
  readonly concurrency?: number;
}

type Metadata = Readonly<Record<string, unknown>>;
type QueueFunction = (entry: unknown, context: InvocationContext) => Promise<void>;

/**
 * A handler for `app.serviceBusQueue` and `app.serviceBusTopic`, for single messages and for batches. It throws when a
 * message fails, so that the platform delivers the message, or the whole batch, again. Messages of the batch that were
 * handled are duplicates then, and are skipped.
 *
 * @example
 * app.serviceBusQueue("orders", { queueName: "orders", connection: "BUS", handler: serviceBusHandler({ handle }) });
 */
export function serviceBusHandler(options: AzureQueueOptions): QueueFunction {
  return queueFunction(options, "serviceBusHandler", serviceBusMessage);
}

/**
 * A handler for `app.storageQueue`. It throws when the message fails; the platform's redelivery and `maxDequeueCount`
 * apply.
 *
 * @example
 * app.storageQueue("orders", { queueName: "orders", connection: "STORAGE", handler: storageQueueHandler({ handle }) });
 */
export function storageQueueHandler(options: AzureQueueOptions): QueueFunction {
  return queueFunction(options, "storageQueueHandler", storageQueueMessage);
}

/**
 * Turns a handler of web requests, such as `idempotentHttp`'s, into a handler for `app.http`.
 *
 * @example
 * app.http("orders", { methods: ["POST"], handler: azureHttp(idempotentHttp({ transaction: transaction(db), subscriber: "api", scope }, placeOrder)) });
 */
export function azureHttp(handler: HttpHandler): (request: HttpRequest) => Promise<HttpResponseInit> {
  if (typeof handler !== "function")
    throw new InvalidArgumentError("azureHttp: the handler must be a function (request) => response.");
  return async (request) => toHttpResponse(await handler(requestFromHost(request)));
}

function queueFunction(
  options: AzureQueueOptions,
  what: string,
  toMessage: (body: unknown, metadata: Metadata, topic: string | undefined) => TriggerMessage,
): QueueFunction {
  const consume = createConsume(options, what, ["topic", "concurrency"]);
  const { topic, concurrency = 4 } = options;
  optionalCount(concurrency, `${what}: concurrency`, 1);
  return async (entry, context) => {
    const metadata: Metadata = context.triggerMetadata ?? {};
    // A single message may have a JSON array as its body. Only a batch has the metadata of one.
    if (!Array.isArray(entry) || !Array.isArray(metadata.messageIdArray)) {
      const { end, error } = await consume(toMessage(entry, metadata, topic));
      if (end === "failed") throw error;
      return;
    }
    const entries = entry.map((body, index) => {
      const message = toMessage(body, metadataOf(metadata, index), topic);
      return { message, receipt: message.messageId };
    });
    const failed = await consumeBatch(entries, consume, {
      concurrency,
      budget: timeBudget(Number.POSITIVE_INFINITY),
      reserveMs: 0,
    });
    if (failed.length > 0) {
      throw new InvalidOperationError(
        `${failed.length} of ${entry.length} messages failed: ${failed.join(", ")}.`,
      );
    }
  };
}

/** The metadata of one message of a batch. The host brings lists for the whole batch, such as `messageIdArray`. */
function metadataOf(metadata: Metadata, index: number): Metadata {
  const own: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(metadata)) {
    if (name.endsWith("Array") && Array.isArray(value)) own[name.slice(0, -"Array".length)] = value[index];
  }
  return own;
}

/** Microsoft's library parses every text that looks like JSON, ids too. This writes the value as text again. */
function text(value: unknown): string | undefined {
  if (typeof value === "string") return value === "" ? undefined : value;
  return value === undefined || value === null ? undefined : JSON.stringify(value);
}

/**
 * A parsed number with more than 15 digits has lost some of them, so two messages could get the same id. The queue's
 * sequence number and time are added: a redelivery has the same ones, a message that is sent again has not.
 */
function idText(metadata: Metadata): string | undefined {
  const { messageId: id, sequenceNumber, enqueuedTimeUtc } = metadata;
  const isCut = typeof id === "number" && !Number.isSafeInteger(id);
  return isCut ? JSON.stringify([id, sequenceNumber, enqueuedTimeUtc]) : text(id);
}

/**
 * The body as text. A parsed body loses spaces and digits beyond JSON's numbers. With the trigger's `dataType: "binary"`
 * the text is exactly what was sent.
 */
const bodyText = (body: unknown): string => {
  if (typeof body === "string") return body;
  if (body instanceof Uint8Array) return Buffer.from(body).toString("utf8");
  return JSON.stringify(body) ?? "";
};

function serviceBusMessage(body: unknown, metadata: Metadata, topic = "service-bus"): TriggerMessage {
  const sent = (metadata.applicationProperties ?? {}) as Metadata;
  return triggerMessage({
    messageId: idText(metadata) ?? text(sent[attributeNames.messageId]) ?? "",
    topic: text(sent[attributeNames.topic]) ?? text(metadata.subject) ?? topic,
    type: text(metadata.subject) || undefined,
    payload: bodyText(body),
    headers: headersFrom(text(sent[attributeNames.headers])),
    correlationId: text(metadata.correlationId) ?? null,
    partitionKey: text(metadata.sessionId) ?? null,
    deliveries: Number(metadata.deliveryCount ?? 1),
  });
}

function storageQueueMessage(body: unknown, metadata: Metadata, topic = "storage-queue"): TriggerMessage {
  const payload = bodyText(body);
  const envelope = openEnvelope(payload);
  return triggerMessage({
    messageId: envelope?.messageId ?? text(metadata.id) ?? "",
    topic: envelope?.topic ?? topic,
    type: envelope?.type,
    payload: envelope?.payload ?? payload,
    headers: envelope?.headers ?? null,
    correlationId: envelope?.correlationId ?? null,
    partitionKey: null,
    deliveries: Number(metadata.dequeueCount ?? 1),
  });
}
