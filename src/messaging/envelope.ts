import { isGuid } from "../base/uuid.js";
import { nameProblem } from "../queue/arguments.js";

/** Signal: something happened. Command: do something. PushCall: a function was called. Response: the result of a command. */
export const messageTypes = ["Signal", "Command", "PushCall", "Response"] as const;
/** The types of messages between services. */
export type MessageType = (typeof messageTypes)[number];

/** A message on its way from one service to another, before it is serialised and signed. */
export interface Envelope {
  /** A GUID, the same on every delivery. Receivers deduplicate by it and the source. */
  readonly messageId: string;
  /** Links the messages of one conversation. A response has that of its command. */
  readonly correlationId: string | null;
  readonly sourceServiceId: string;
  readonly messageType: MessageType;
  /** The name of the message in `defineMessages`. */
  readonly endpoint: string;
  readonly payload: unknown;
  /** Headers beside those of the protocol, such as `traceparent`. Names are in lower case. */
  readonly headers: Readonly<Record<string, string>>;
}

/** An envelope on the wire: with the headers of the protocol, and the payload as canonical JSON, which is signed. */
export interface SignedEnvelope extends Omit<Envelope, "payload"> {
  readonly payloadText: string;
}

export const protocolVersion = "2.0";

/** The headers that the protocol sets. `rf-hmac` is the signature. */
const protocolHeaders: readonly string[] = ["rf-version", "rf-timestamp", "rf-hmac"];

export const isProtocolHeader = (name: string): boolean => protocolHeaders.includes(name);

/** Parts of the protocol: a sender keeps them, and a receiver refuses what exceeds them. */
export const wireLimits = {
  /** Beside those of the protocol. */
  headers: 64,
  /** Characters (UTF-16 code units) of a header's name. */
  headerName: 255,
  /** Characters (UTF-16 code units) of a header's value. */
  headerValue: 8_192,
  /** Objects and arrays inside each other in a payload. */
  depth: 100,
} as const;

/** Returns the problem of the fields without quoting them. They come from outside, and may be of any type. */
export function fieldProblem(fields: Omit<SignedEnvelope, "payloadText">): string | undefined {
  if (!isGuid(fields.messageId)) return "messageId is not a GUID";
  // an empty correlation id would be signed like null
  if (fields.correlationId !== null && nameProblem(fields.correlationId) !== undefined)
    return "correlationId is not a name";
  if (nameProblem(fields.sourceServiceId) !== undefined) return "sourceServiceId is not a name";
  if (!messageTypes.includes(fields.messageType)) return "messageType is unknown";
  if (nameProblem(fields.endpoint) !== undefined) return "endpoint is not a name";
  return headersProblem(fields.headers);
}

function headersProblem(headers: unknown): string | undefined {
  if (typeof headers !== "object" || headers === null) return "headers are not an object of strings";
  const entries = Object.entries(headers);
  if (entries.length > wireLimits.headers + protocolHeaders.length) return "too many headers";
  for (const [name, value] of entries) {
    const problem = headerProblem(name, value);
    if (problem !== undefined) return problem;
  }
  const [version, timestamp, hmac] = protocolHeaders.map(
    (name) => (headers as Readonly<Record<string, string | undefined>>)[name],
  );
  if (version !== protocolVersion) return "rf-version is unknown";
  if (timestampMs(timestamp) === undefined) return "rf-timestamp is not a UTC time";
  return hmac === undefined ? "rf-hmac is missing" : undefined;
}

export function headerProblem(name: string, value: unknown): string | undefined {
  if (!namePattern.test(name) || name.length > wireLimits.headerName) return "header name is not allowed";
  if (typeof value !== "string") return "headers are not an object of strings";
  return isHeaderText(value) ? undefined : "header value is not allowed";
}

/** ASCII, so that the order of bytes and of characters is the same. A letter first, so that `__proto__` is none. */
const namePattern = /^[a-z][a-z0-9._-]*$/;

const isHeaderText = (value: string): boolean =>
  value.length <= wireLimits.headerValue && value.isWellFormed() && !/\p{Cc}/u.test(value);

const timestampPattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/;

/** Returns undefined for a text that is no ISO 8601 time in UTC, or no time at all, such as the 30th of February. */
export function timestampMs(text: string | undefined): number | undefined {
  if (text === undefined || !timestampPattern.test(text)) return undefined;
  const ms = Date.parse(text);
  const isTime = !Number.isNaN(ms) && new Date(ms).toISOString().slice(0, 19) === text.slice(0, 19);
  return isTime ? ms : undefined;
}
