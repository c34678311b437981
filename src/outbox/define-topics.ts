import type { HandlerDefinition, HandlerEntry, Handlers } from "../dispatch/handlers.js";
import { InvalidArgumentError } from "../errors.js";
import type { InboxMessage, OutboxMessage, QueueMessage } from "../queue/message.js";
import type { OutgoingMessage } from "../queue/message-content.js";
import { type InputOf, type OutputOf, type StandardSchema, validated } from "../queue/standard-schema.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { Enqueued, EnqueueOptions } from "./enqueue.js";
import type { Outbox } from "./outbox.js";

export type TopicSchemas = Readonly<Record<string, StandardSchema>>;

/** A message whose `data` the schema of its topic has checked. */
type Typed<Message, Schema extends StandardSchema> = Omit<Message, "data"> & {
  readonly data: OutputOf<Schema>;
};

export type TypedHandlers<Message, Schemas extends TopicSchemas, Tx = SqlExecutor> = {
  readonly [Topic in keyof Schemas]?: HandlerEntry<Typed<Message, Schemas[Topic]>, Tx>;
};

/** A message of one of the topics, with data that its schema takes. */
export type TypedMessage<Schemas extends TopicSchemas> = {
  [Topic in keyof Schemas & string]: Omit<OutgoingMessage, "topic" | "payload"> & {
    readonly topic: Topic;
    readonly data: InputOf<Schemas[Topic]>;
  };
}[keyof Schemas & string];

export interface Topics<Schemas extends TopicSchemas> {
  /** Handlers of received messages: `data` is typed, and checked before the handler runs. A message that does not fit is dead. */
  handlers<Tx = SqlExecutor>(handlers: TypedHandlers<InboxMessage, Schemas, Tx>): Handlers<InboxMessage, Tx>;
  /** The same for messages of the outbox. */
  publishers<Tx = SqlExecutor>(
    handlers: TypedHandlers<OutboxMessage, Schemas, Tx>,
  ): Handlers<OutboxMessage, Tx>;
  /** Enqueues one message, after its schema has checked its data. Returns its id. */
  enqueue(outbox: Outbox, message: TypedMessage<Schemas>, options?: EnqueueOptions): Promise<string>;
  /** The same for a message with a natural key. Returns whether it existed. */
  enqueueOnce(
    outbox: Outbox,
    message: TypedMessage<Schemas> & { readonly naturalKey: string },
    options?: EnqueueOptions,
  ): Promise<Enqueued>;
}

/**
 * Gives topics a schema: of zod, valibot, arktype or any other library of Standard Schema. It types and checks messages where
 * they are enqueued and where they are handled.
 *
 * @example
 * const topics = defineTopics({ "order.created": z.object({ id: z.number() }) });
 * await topics.enqueue(outbox, { topic: "order.created", data: { id: 7 } });
 * const publishers = topics.publishers({ "order.created": ({ data }) => console.log(data.id) });
 */
export function defineTopics<const Schemas extends TopicSchemas>(schemas: Schemas): Topics<Schemas> {
  for (const [topic, schema] of Object.entries(schemas)) {
    if (typeof schema?.["~standard"]?.validate !== "function")
      throw new InvalidArgumentError(`defineTopics: the schema of "${topic}" is not a Standard Schema.`);
  }
  const schemaOf = (topic: string): StandardSchema => {
    if (Object.hasOwn(schemas, topic)) return schemas[topic]!;
    throw new InvalidArgumentError(`The topic "${topic}" is none of: ${Object.keys(schemas).join(", ")}.`);
  };
  const checked = (message: TypedMessage<Schemas>) =>
    validated(schemaOf(message.topic), message.data, `The data of "${message.topic}"`);
  const withSchemas = <Message extends QueueMessage, Tx>(handlers: object): Handlers<Message, Tx> =>
    Object.fromEntries(
      Object.entries(handlers).map(([topic, entry]) => {
        const definition = typeof entry === "function" ? { handle: entry } : entry;
        return [topic, { ...definition, schema: schemaOf(topic) } as HandlerDefinition<Message, Tx>];
      }),
    );
  return {
    handlers: (handlers) => withSchemas(handlers),
    publishers: (handlers) => withSchemas(handlers),
    async enqueue(outbox, message, options) {
      await checked(message);
      return outbox.enqueue(message, options);
    },
    async enqueueOnce(outbox, message, options) {
      await checked(message);
      return outbox.enqueueOnce(message, options);
    },
  };
}
