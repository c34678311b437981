import { omitUndefined } from "../base/defined.js";
import { permanentFailure } from "../dispatch/settlement.js";
import { InvalidArgumentError } from "../errors.js";
import { payloadEncodingHeader } from "../queue/attributes.js";
import type { PublishedMessage, PublisherOptions } from "./publisher.js";

/**
 * How a message is written. `cloudevents` is the structured mode of CloudEvents 1.0: the payload is a JSON object with the event's
 * attributes and its data. `cloudevents-binary` is for webhooks: the body stays the payload, and the attributes are headers.
 */
export type MessageFormat = "cloudevents" | "cloudevents-binary";

export const cloudEventOptionNames = ["format", "source"];

/** The messages of an outbox have GUIDs, so one source for all of them keeps source and id together unique. */
const defaultSource = "urn:oncebox:outbox";

/** Refuses a wrong format or source. Returns how messages are written: as they are, unless the options say otherwise. */
export function messageFormat(
  what: string,
  { format, source }: Pick<PublisherOptions, "format" | "source">,
  formats: readonly MessageFormat[] = ["cloudevents"],
): (message: PublishedMessage) => PublishedMessage {
  if (format !== undefined && !formats.includes(format))
    throw new InvalidArgumentError(`${what}: format must be ${formats.join(" or ")}.`);
  if (format === undefined && source !== undefined)
    throw new InvalidArgumentError(`${what}: source is of CloudEvents. Set format, too.`);
  if (source !== undefined && (typeof source !== "string" || !isUriReference.test(source)))
    throw new InvalidArgumentError(
      `${what}: source must be a URI or a part of one, such as https://example.com/orders or /orders.`,
    );
  if (format === undefined) return (message) => message;
  const write = format === "cloudevents" ? structured : binary;
  return (message) => write(message, source ?? defaultSource);
}

/** The characters of RFC 3986. */
const isUriReference = /^(?:[\w.~:/?#[\]@!$&'()*+,;=-]|%[0-9a-f]{2})+$/i;

/** The media type of an event in the structured mode. */
const eventType = "application/cloudevents+json";

/** The payload is put into the event as it is: parsed and written again, its long numbers would lose digits. */
function structured(message: PublishedMessage, source: string): PublishedMessage {
  const { payload, headers } = message;
  const { datacontenttype, isJson, isBase64 } = contentOf(message);
  const attributes = { ...attributesOf(message, source), datacontenttype };
  const data = isBase64
    ? `,"data_base64":${JSON.stringify(payload)}`
    : payload === ""
      ? ""
      : `,"data":${isJson ? payload : JSON.stringify(payload)}`;
  const event = `${JSON.stringify(attributes).slice(0, -1)}${data}}`;
  const { [payloadEncodingHeader]: _, ...others } = lowerCased(headers); // the event says how its data is written
  return { ...message, payload: event, headers: { ...others, "content-type": eventType } };
}

/** As CloudEvents' binding to HTTP says: an attribute is a header, and what a header cannot hold is written as in a URL. */
function binary(message: PublishedMessage, source: string): PublishedMessage {
  const { datacontenttype } = contentOf(message);
  const attributes = Object.entries(attributesOf(message, source)).map(([name, value]) => [
    `ce-${name}`,
    headerText(value),
  ]);
  const headers = { ...lowerCased(message.headers), ...Object.fromEntries(attributes) };
  return { ...message, headers: { ...headers, ...omitUndefined({ "content-type": datacontenttype }) } };
}

/** Percent-encodes what is no visible ASCII, the double quote and the percent sign, as CloudEvents' binding to HTTP says. */
export const headerText = (value: string): string =>
  value.replaceAll(/[^\x21\x23\x24\x26-\x7e]/gu, encodeURIComponent);

/** The body of an event in the binary mode, and its headers: what was stored in base64 is sent as the bytes that it was. */
export function binaryContent({ payload, headers }: Pick<PublishedMessage, "payload" | "headers">): {
  readonly body: string | Uint8Array;
  readonly headers: PublishedMessage["headers"];
} {
  const { [payloadEncodingHeader]: encoding, ...others } = headers ?? {};
  return encoding === "base64"
    ? { body: Buffer.from(payload, "base64"), headers: others }
    : { body: payload, headers };
}

/** Those of the specification, then those of its documented extensions. */
function attributesOf(message: PublishedMessage, source: string): Record<string, string> {
  const { messageId, naturalKey, partitionKey, correlationId, createdAt, headers } = message;
  const optional = {
    time: createdAt?.toISOString(),
    subject: naturalKey ?? partitionKey,
    partitionkey: partitionKey,
    correlationid: correlationId,
    traceparent: header(headers, "traceparent"),
    tracestate: header(headers, "tracestate"),
  };
  const given = Object.entries(optional).filter(([, value]) => value && !hasControls.test(value));
  return {
    ...{ specversion: "1.0", id: messageId, source, type: message.type ?? message.topic },
    ...(Object.fromEntries(given) as Record<string, string>),
  };
}

/** No attribute may have them. */
const hasControls = /[\p{Cc}\p{Cs}]/u;

interface Content {
  /** Undefined where there is no data. */
  readonly datacontenttype: string | undefined;
  readonly isJson: boolean;
  /** The payload is bytes, in base64. */
  readonly isBase64: boolean;
}

/** What the message's header says of its payload; without one, what it is. */
function contentOf({ payload, headers }: PublishedMessage): Content {
  const given = header(headers, "content-type");
  if (payload === "") return { datacontenttype: given, isJson: false, isBase64: false };
  const isBase64 = header(headers, payloadEncodingHeader) === "base64";
  if (isBase64) return { datacontenttype: given ?? "application/octet-stream", isJson: false, isBase64 };
  const saysJson = given !== undefined && isJsonType.test(given);
  const isJson = (given === undefined || saysJson) && parses(payload);
  if (saysJson && !isJson)
    throw permanentFailure("The message's content-type is JSON, and its payload is not.");
  return { datacontenttype: given ?? (isJson ? "application/json" : "text/plain"), isJson, isBase64 };
}

const isJsonType = /^[^;]*[/+]json\s*(?:;|$)/i;

const header = (headers: PublishedMessage["headers"], name: string): string | undefined =>
  lowerCased(headers)[name];

/** Two spellings of one name would otherwise be sent as one header with both values. */
export const lowerCased = (headers: PublishedMessage["headers"]): Record<string, string> =>
  Object.fromEntries(Object.entries(headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]));

function parses(payload: string): boolean {
  try {
    JSON.parse(payload);
    return true;
  } catch {
    return false;
  }
}
