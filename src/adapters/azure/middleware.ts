import type { HttpRequest, HttpResponseInit, InvocationContext } from "@azure/functions";
import { InvalidArgumentError, InvalidOperationError } from "../../errors.js";
import { type ConsumeOptions, createConsume } from "../../middleware/consume.js";
import { consumeBatch } from "../../middleware/consume-batch.js";
import type { HttpHandler } from "../../middleware/idempotent-requests.js";
import { attributeNames, headersFrom, type TriggerMessage } from "../../middleware/trigger-message.js";
import { openEnvelope } from "../../publishers/envelope.js";
import { optionalCount } from "../../queue/arguments.js";
import { toHttpResponse, toRequest } from "./http.js";

export interface AzureQueueOptions extends ConsumeOptions {
  /** Of messages that bring none. */
  readonly topic?: string;
  /** Of a batch (`cardinality: "many"`), messages or sessions at once: 4 by default. */
  readonly concurrency?: number;
}

type Metadata = Readonly<Record<string, unknown>>;
type QueueFunction = (entry: unknown, context: InvocationContext) => Promise<void>;

/**
 * A handler for `app.serviceBusQueue` and `app.serviceBusTopic`, of one message or of a batch. What fails is thrown, so
 * that the platform delivers it again; of a batch, what was handled already is a duplicate then, and is skipped.
 *
 * @example
 * app.serviceBusQueue("orders", { queueName: "orders", connection: "BUS", handler: serviceBusHandler({ handle }) });
 */
export function serviceBusHandler(options: AzureQueueOptions): QueueFunction {
  return queueFunction(options, "serviceBusHandler", serviceBusMessage);
}

/**
 * A handler for `app.storageQueue`. The platform's own redelivery and `maxDequeueCount` apply.
 *
 * @example
 * app.storageQueue("orders", { queueName: "orders", connection: "STORAGE", handler: storageQueueHandler({ handle }) });
 */
export function storageQueueHandler(options: AzureQueueOptions): QueueFunction {
  return queueFunction(options, "storageQueueHandler", storageQueueMessage);
}

/**
 * A handler of web requests, such as `idempotentHttp`'s, for `app.http`.
 *
 * @example
 * app.http("orders", { methods: ["POST"], handler: azureHttp(idempotentHttp({ transaction: transaction(db), subscriber: "api" }, placeOrder)) });
 */
export function azureHttp(handler: HttpHandler): (request: HttpRequest) => Promise<HttpResponseInit> {
  if (typeof handler !== "function")
    throw new InvalidArgumentError("azureHttp takes a function (request) => response.");
  return async (request) => toHttpResponse(await handler(toRequest(request)));
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
    // a message whose body is a JSON array is no batch
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
      remainingMs: () => Number.POSITIVE_INFINITY,
      reserveMs: 0,
    });
    if (failed.length > 0) {
      throw new InvalidOperationError(
        `${failed.length} of ${entry.length} messages failed: ${failed.join(", ")}.`,
      );
    }
  };
}

/** Of one message of a batch: the host brings what each has in lists, `messageIdArray` and so on. */
function metadataOf(metadata: Metadata, index: number): Metadata {
  const own: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(metadata)) {
    if (name.endsWith("Array") && Array.isArray(value)) own[name.slice(0, -"Array".length)] = value[index];
  }
  return own;
}

/** Microsoft's library parses every text that looks like JSON, also ids: the text that was sent, as far as it can be told. */
function text(value: unknown): string | undefined {
  if (typeof value === "string") return value === "" ? undefined : value;
  return value === undefined || value === null ? undefined : JSON.stringify(value);
}

/**
 * A number with more than 15 digits has lost some, and two messages could seem to have the same id. What the queue itself
 * knows tells them apart: a redelivery has the same, a sender's second attempt has not.
 */
function idText(metadata: Metadata): string | undefined {
  const { messageId: id, sequenceNumber, enqueuedTimeUtc } = metadata;
  const isCut = typeof id === "number" && !Number.isSafeInteger(id);
  return isCut ? JSON.stringify([id, sequenceNumber, enqueuedTimeUtc]) : text(id);
}

/** The text that was sent, up to spaces and what JSON's numbers lose; all of it with the trigger's `dataType: "binary"`. */
const bodyText = (body: unknown): string => {
  if (typeof body === "string") return body;
  if (body instanceof Uint8Array) return Buffer.from(body).toString("utf8");
  return JSON.stringify(body) ?? "";
};

function serviceBusMessage(body: unknown, metadata: Metadata, topic = "service-bus"): TriggerMessage {
  const sent = (metadata.applicationProperties ?? {}) as Metadata;
  return {
    messageId: idText(metadata) ?? text(sent[attributeNames.messageId]) ?? "",
    topic: text(sent[attributeNames.topic]) ?? text(metadata.subject) ?? topic,
    payload: bodyText(body),
    headers: headersFrom(text(sent[attributeNames.headers])),
    correlationId: text(metadata.correlationId) ?? null,
    partitionKey: text(metadata.sessionId) ?? null,
    deliveries: Number(metadata.deliveryCount ?? 1),
  };
}

function storageQueueMessage(body: unknown, metadata: Metadata, topic = "storage-queue"): TriggerMessage {
  const payload = bodyText(body);
  const envelope = openEnvelope(payload);
  return {
    messageId: envelope?.messageId ?? text(metadata.id) ?? "",
    topic: envelope?.topic ?? topic,
    payload: envelope?.payload ?? payload,
    headers: envelope?.headers ?? null,
    correlationId: envelope?.correlationId ?? null,
    partitionKey: null,
    deliveries: Number(metadata.dequeueCount ?? 1),
  };
}
