import { omitUndefined } from "../base/defined.js";
import { InvalidArgumentError } from "../errors.js";
import { withPayload } from "../queue/arguments.js";
import { attributeHeaders, attributesOf } from "../queue/attributes.js";
import type { OutgoingMessage, QueueMessage } from "../queue/message.js";
import { checkOutgoing, type OutgoingOf, type TopicSchemas } from "../queue/topics.js";
import type { DispatchStore, PreparedMessages } from "../queue/work-store.js";
import type { ReturnedMessage } from "./handlers.js";

/** The outbox that returned messages are stored in: what `createOutbox` returns. */
export interface ReturnOutbox<Topics extends TopicSchemas = TopicSchemas> {
  database?(): object;
  /** Schemas of the data that is sent. */
  readonly topics?: Topics | undefined;
  prepare(messages: readonly OutgoingOf<Topics>[]): PreparedMessages;
}

/** Refuses an outbox that cannot share a transaction with the store's acknowledgements. */
export function outboxOf(
  store: Pick<DispatchStore<QueueMessage>, "database">,
  outbox: ReturnOutbox | undefined,
): ReturnOutbox | undefined {
  if (outbox === undefined) return undefined;
  if (typeof outbox?.prepare !== "function")
    throw new InvalidArgumentError("createDispatcher: outbox must be an outbox, as createOutbox returns it.");
  if (outbox.database?.() === store.database?.()) return outbox;
  throw new InvalidArgumentError(
    "createDispatcher: outbox must be on the store's database, made with the same db: what handlers return is stored in the transaction of the acknowledgement.",
  );
}

/**
 * Whether a handler returned messages, right or wrong: an object with a topic, data or a payload, or a list with such an object. Anything
 * else is no message.
 */
export const holdsMessages = (result: unknown): boolean =>
  Array.isArray(result) ? result.some(isMeantAsMessage) : isMeantAsMessage(result);

const isMeantAsMessage = (entry: unknown): boolean =>
  typeof entry === "object" && entry !== null && ["topic", "data", "payload"].some((name) => name in entry);

/** The messages in what a handler returned, as the outbox takes them. What is not a message is refused: it would be lost silently. */
export function outgoingMessages(
  result: unknown,
  defaultTopic?: string | undefined,
): readonly OutgoingMessage[] {
  if (result === undefined || result === null) return [];
  const list: readonly unknown[] = Array.isArray(result) ? result : [result];
  return list.map((entry) => toMessage(entry, defaultTopic));
}

function toMessage(entry: unknown, defaultTopic: string | undefined): OutgoingMessage {
  const isMessage = typeof entry === "object" && entry !== null && ("data" in entry || "payload" in entry);
  if (!isMessage) {
    const fields = Object.keys(Object(entry)).slice(0, 10).join(", ");
    throw new InvalidArgumentError(
      `A handler must return nothing, a message { topic, data } or { topic, payload }, or a list of messages.${fields === "" ? "" : ` This one has neither data nor payload, but ${fields}.`}`,
    );
  }
  const { attributes, topic = defaultTopic, ...rest } = entry as Partial<ReturnedMessage>;
  if (topic === undefined)
    throw new InvalidArgumentError(
      'A message that a handler returned has no topic. Add one. The outbox middleware can have a default: outbox({ topic: "…" }).',
    );
  const message = { ...withPayload<Omit<OutgoingMessage, "topic">>(rest as OutgoingMessage), topic };
  return attributes === undefined
    ? message
    : { ...message, headers: attributeHeaders({ ...attributesOf(message), ...attributes }) };
}

/**
 * The messages that the handler of a message returned, checked as by `enqueue`. Without a correlation id of their own they have that
 * of the handled message, or its id: the trace of an event shows them with it. A promise only where topics have schemas.
 */
export function preparedMessages(
  result: unknown,
  { handled, outbox }: Preparation,
): PreparedMessages | Promise<PreparedMessages> {
  const correlationId = correlationOf(handled);
  const messages = outgoingMessages(result).map((message) => ({ correlationId, ...omitUndefined(message) }));
  const { topics } = outbox;
  if (topics === undefined) return outbox.prepare(messages);
  const checks = messages.map((message) => checkOutgoing(topics, message));
  return Promise.all(checks).then(() => outbox.prepare(messages));
}

interface Preparation {
  readonly handled: QueueMessage;
  readonly outbox: ReturnOutbox;
}

function correlationOf(handled: QueueMessage): string | undefined {
  const { correlationId, source, messageId, id } = handled as QueueMessage &
    Partial<Record<"source" | "messageId" | "id", string>>;
  return correlationId ?? (source === undefined ? id : messageId);
}
