import { InvalidArgumentError } from "../errors.js";
import type { OutgoingMessage } from "../outbox/outbox.js";

/** What a handler returns: a message as the outbox takes it, or one with `data` and `attributes` of any kind. */
export interface HandlerOutput extends Omit<OutgoingMessage, "topic" | "payload" | "headers"> {
  /** The outbox middleware's own by default. */
  readonly topic?: string;
  /** Stored as JSON, in place of `payload`. */
  readonly data?: unknown;
  readonly payload?: string;
  /** Stored as headers; what is no text is stored as JSON. */
  readonly attributes?: Readonly<Record<string, unknown>>;
  readonly headers?: OutgoingMessage["headers"];
}

/** The messages in a handler's output. Anything else it could return is refused: it would be lost without a word. */
export function toOutgoing(output: unknown, defaultTopic: string | undefined): OutgoingMessage[] {
  if (output === undefined || output === null) return [];
  const list: readonly unknown[] = Array.isArray(output) ? output : [output];
  return list.map((entry) => toMessage(entry, defaultTopic));
}

function toMessage(entry: unknown, defaultTopic: string | undefined): OutgoingMessage {
  const isMessage = typeof entry === "object" && entry !== null && ("data" in entry || "payload" in entry);
  if (!isMessage) {
    throw new InvalidArgumentError(
      "outbox middleware: a handler returns nothing, a message { topic, data } or { topic, payload }, or a list of them.",
    );
  }
  const { data, attributes, payload, headers, topic = defaultTopic, ...rest } = entry as HandlerOutput;
  if (topic === undefined) {
    throw new InvalidArgumentError(
      'outbox middleware: the message has no topic. Give it one, or all of them: outbox({ topic: "…" }).',
    );
  }
  const all = attributes === undefined ? headers : { ...headers, ...asText(attributes) };
  return { ...rest, topic, payload: payload ?? asJson(data), ...(all === undefined ? {} : { headers: all }) };
}

function asJson(data: unknown): string {
  const text = JSON.stringify(data);
  if (text === undefined)
    throw new InvalidArgumentError("outbox middleware: data must be something JSON can hold.");
  return text;
}

const asText = (attributes: Readonly<Record<string, unknown>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(attributes)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [name, typeof value === "string" ? value : asJson(value)]),
  );
