import { InvalidArgumentError } from "../errors.js";
import { requireName } from "./arguments.js";
import type { OutgoingMessage, WithData } from "./message.js";
import { type InputOf, type OutputOf, type StandardSchema, validated } from "./standard-schema.js";

/** Schemas by topic: of zod, valibot, arktype or any other library of Standard Schema. */
export interface TopicSchemas {
  readonly [topic: string]: StandardSchema;
}

/** What `topics` says of the data of a handler's topic; `Own` where it says nothing. */
export type DataOf<Topics extends TopicSchemas, Topic, Own> = string extends keyof Topics
  ? Own
  : Topic extends keyof Topics
    ? OutputOf<Topics[Topic]>
    : Own;

/** A message of a topic that has a schema, with data that the schema takes. */
export interface TopicMessage<Topic extends string, Data> extends Omit<OutgoingMessage, "topic" | "payload"> {
  /** One of the topics. */
  readonly topic: Topic;
  /** Stored as JSON, after the topic's schema has checked it. */
  readonly data: Data;
  readonly payload?: undefined;
}

/** A message to send: any, or one of `topics`. */
export type OutgoingOf<Topics extends TopicSchemas> = string extends keyof Topics
  ? WithData<OutgoingMessage>
  : { [Topic in keyof Topics & string]: TopicMessage<Topic, InputOf<Topics[Topic]>> }[keyof Topics & string];

/** Refuses what is no schema, and a topic that is a pattern: no message has such a topic. */
export function checkTopics(topics: unknown, where: string): void {
  if (topics === undefined) return;
  if (typeof topics !== "object" || topics === null || Array.isArray(topics))
    throw new InvalidArgumentError(`${where}: topics must be an object with a schema for each topic.`);
  for (const [topic, schema] of Object.entries(topics)) {
    requireName(topic, "a topic of topics");
    if (topic.includes("*"))
      throw new InvalidArgumentError(`${where}: topics names each topic whole: ${JSON.stringify(topic)}.`);
    if (typeof (schema as StandardSchema | null)?.["~standard"]?.validate !== "function")
      throw new InvalidArgumentError(`${where}: the schema of "${topic}" is not a Standard Schema.`);
  }
}

/** The schema of a topic, where it has one. */
export const schemaOf = (topics: TopicSchemas | undefined, topic: string): StandardSchema | undefined =>
  topics !== undefined && Object.hasOwn(topics, topic) ? topics[topic] : undefined;

/** Refuses a message to send whose topic is none of `topics`, or whose data does not fit the topic's schema. */
export async function checkOutgoing(
  topics: TopicSchemas | undefined,
  message: WithData<OutgoingMessage>,
): Promise<void> {
  const schema = outgoingSchema(topics, message);
  if (schema === undefined) return;
  const { topic, payload } = message;
  const data = "data" in message ? message.data : jsonOf(topic, payload);
  await validated(schema, data, `The data of "${topic}"`);
}

/** The schema of a message to send. Refuses a topic that is none of `topics`. Undefined without `topics`. */
export function outgoingSchema(
  topics: TopicSchemas | undefined,
  message: WithData<OutgoingMessage>,
): StandardSchema | undefined {
  if (topics === undefined || typeof message?.topic !== "string") return undefined; // another check says what is wrong
  const { topic } = message;
  const schema = schemaOf(topics, topic);
  if (schema !== undefined) return schema;
  throw new InvalidArgumentError(
    `The topic ${JSON.stringify(topic)} is none of topics: ${Object.keys(topics).join(", ")}.`,
  );
}

function jsonOf(topic: string, payload: unknown): unknown {
  if (payload === undefined)
    throw new InvalidArgumentError(`A message of "${topic}" needs data, or a payload.`);
  if (typeof payload !== "string")
    throw new InvalidArgumentError(`The payload of "${topic}" must be a string. Give an object as data.`);
  try {
    return JSON.parse(payload as string);
  } catch {
    throw new InvalidArgumentError(`The payload of "${topic}" is not JSON, and the topic has a schema.`);
  }
}
