import { defined } from "../base/defined.js";
import { InvalidArgumentError } from "../errors.js";
import type { OutgoingMessage } from "../outbox/outgoing-message.js";

/** A message that a handler returns: as the outbox takes it, or with `data` and `attributes` of any JSON type. */
export interface HandlerOutput extends Omit<OutgoingMessage, "topic" | "payload" | "headers"> {
  /** The topic of the outbox middleware by default. */
  readonly topic?: string;
  /** Stored as JSON, instead of `payload`. */
  readonly data?: unknown;
  readonly payload?: string;
  /** Stored as headers. Values that are not text are stored as JSON. */
  readonly attributes?: Readonly<Record<string, unknown>>;
  readonly headers?: OutgoingMessage["headers"];
}

/** The messages in a handler's output. Any other output is refused, because it would be lost silently. */
export function toOutgoing(output: unknown, defaultTopic: string | undefined): OutgoingMessage[] {
  if (output === undefined || output === null) return [];
  const list: readonly unknown[] = Array.isArray(output) ? output : [output];
  return list.map((entry) => toMessage(entry, defaultTopic));
}

function toMessage(entry: unknown, defaultTopic: string | undefined): OutgoingMessage {
  const isMessage = typeof entry === "object" && entry !== null && ("data" in entry || "payload" in entry);
  if (!isMessage) {
    throw new InvalidArgumentError(
      "outbox middleware: the handler must return nothing, a message { topic, data } or { topic, payload }, or a list of them.",
    );
  }
  const { data, attributes, payload, headers, topic = defaultTopic, ...rest } = entry as HandlerOutput;
  if (topic === undefined) {
    throw new InvalidArgumentError(
      'outbox middleware: the message has no topic. Add one, or set a default: outbox({ topic: "…" }).',
    );
  }
  const allHeaders = attributes === undefined ? headers : { ...headers, ...asText(attributes) };
  return { ...rest, topic, payload: payload ?? asJson(data), ...defined({ headers: allHeaders }) };
}

function asJson(data: unknown): string {
  const text = JSON.stringify(data);
  if (text === undefined)
    throw new InvalidArgumentError("outbox middleware: data cannot be written as JSON.");
  return text;
}

const asText = (attributes: Readonly<Record<string, unknown>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(attributes)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [name, typeof value === "string" ? value : asJson(value)]),
  );
