import type { EventBridgeClient } from "@aws-sdk/client-eventbridge";
import { defined } from "../base/defined.js";
import { loadPackage } from "../base/load-package.js";
import { memoisePromise } from "../base/memoise-promise.js";
import { requirePackage } from "../base/require-package.js";
import { permanentFailure } from "../dispatch/settlement.js";
import { refuseUnknown, requireName } from "../queue/arguments.js";
import { bytesOf, requireSize } from "./aws-attributes.js";
import { publisherOptionNames } from "./guarded.js";
import { microBatch, notSent, sent } from "./micro-batch.js";
import { publishTo } from "./publish-to.js";
import type { PublishedMessage, Publisher, PublisherOptions } from "./publisher.js";

export interface EventBridgePublisherOptions extends PublisherOptions {
  /** The event's source, such as "com.example.orders". */
  readonly source: string;
  /** "default" by default. */
  readonly eventBusName?: string;
  /** Your own client; one with the environment's region and credentials by default. */
  readonly client?: EventBridgeClient;
}

/** The limit of an event, and of a whole request. */
const maxEventBytes = 262_144;

/** EventBridge would refuse these events every time. */
const contentFaults = ["MalformedDetail", "InvalidArgument"];

/**
 * Puts events on an EventBridge bus, ten per request. The topic is the detail type, and the payload, which must be a
 * JSON object, is the detail. EventBridge has no field for a sender's id: put it into the payload if receivers need it.
 *
 * @example
 * createDispatcher({ store: outbox, handlers: { "order.placed": eventBridgePublisher({ source: "com.example.orders" }) } })
 */
export function eventBridgePublisher(options: EventBridgePublisherOptions): Publisher {
  refuseUnknown(
    options,
    ["source", "eventBusName", "client", ...publisherOptionNames],
    "eventBridgePublisher",
  );
  const { source, eventBusName = "default" } = options;
  requireName(source, "eventBridgePublisher: source");
  requirePackage("@aws-sdk/client-eventbridge", "eventBridgePublisher");
  const sdk = memoisePromise(async () => {
    const { EventBridgeClient, PutEventsCommand } = await loadPackage(
      "@aws-sdk/client-eventbridge",
      () => import("@aws-sdk/client-eventbridge"),
    );
    return { PutEventsCommand, client: options.client ?? new EventBridgeClient({}) };
  });
  const sizeOf = (message: PublishedMessage): number => bytesOf([source, message.topic, message.payload]);
  const send = microBatch<PublishedMessage>({
    maxItems: 10,
    maxBytes: maxEventBytes,
    bytesOf: sizeOf,
    async send(messages, signal) {
      const { PutEventsCommand, client } = await sdk();
      const entries = messages.map((message) => ({
        Source: source,
        EventBusName: eventBusName,
        DetailType: message.topic,
        Detail: message.payload,
        ...traceOf(message),
      }));
      const response = await client.send(new PutEventsCommand({ Entries: entries }), { abortSignal: signal });
      return messages.map((_, index) => {
        const { EventId: id, ErrorCode: code } = response.Entries?.[index] ?? {};
        if (id) return sent;
        const text = `EventBridge refused the event: ${code ?? "no outcome reported"}.`;
        return notSent(contentFaults.includes(code ?? "") ? permanentFailure(text) : new Error(text));
      });
    },
  });
  return publishTo(`EventBridge ${eventBusName}`, options, async (message, { signal }) => {
    requireJsonObject(message);
    requireSize(sizeOf(message), maxEventBytes, "EventBridge");
    await send(message, signal);
  });
}

const traceOf = ({ headers }: PublishedMessage) => {
  return defined({ TraceHeader: headers?.["x-amzn-trace-id"] });
};

function requireJsonObject(message: PublishedMessage): void {
  try {
    const parsed: unknown = JSON.parse(message.payload);
    if (typeof parsed === "object" && parsed !== null && !Array.isArray(parsed)) return;
  } catch {
    // the error below does not quote the payload
  }
  throw permanentFailure("The payload is not a JSON object. EventBridge takes nothing else.");
}
