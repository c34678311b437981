import { omitUndefined } from "../base/defined.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown, requireBatchSize, requireDuration, requireInterval } from "../queue/arguments.js";
import type { OutboxMessage, QueueMessage } from "../queue/message.js";
import type { OutputOf } from "../queue/standard-schema.js";
import type { TopicSchemas } from "../queue/topics.js";
import type { DispatchStore } from "../queue/work-store.js";
import type { QueueParts } from "../sql/store.js";
import { defaults as storeDefaults } from "../sql/store-options.js";

/** Options of `messages`. */
export interface MessagesOptions {
  /** An abort ends the loop after the message that it is at, which can still be acknowledged. It throws nothing. */
  readonly signal?: AbortSignal | undefined;
  /** Messages in one claim, and how many may be out at once, neither acknowledged nor given back: 100 by default. */
  readonly batchSize?: number | undefined;
  /** The wait after a poll that found nothing: 500 ms by default. */
  readonly pollMs?: number | undefined;
  /** 30 s by default. The lease of a message that is out longer is renewed. */
  readonly leaseMs?: number | undefined;
  /** A message that is out longer is abandoned, so that one that was forgotten is not held for ever: 5 minutes by default. */
  readonly timeoutMs?: number | undefined;
}

/** A message of `outbox.messages()`, held until it is settled. With `topics`, its topic tells which data it has. */
export type StreamedMessage<Topics extends TopicSchemas = TopicSchemas> = MessageOf<Topics> & Settling;

type MessageOf<Topics extends TopicSchemas> = string extends keyof Topics
  ? OutboxMessage
  : {
      [Topic in keyof Topics & string]: OutboxMessage & {
        readonly topic: Topic;
        readonly data: OutputOf<Topics[Topic]>;
      };
    }[keyof Topics & string];

/**
 * How a message is settled: once, by the first call. Neither function rejects because of the database, so neither has to be awaited, and
 * those that are not are sent together.
 */
interface Settling {
  /**
   * The message is done. Resolves to false where it is not, because its lease was lost, it was settled in another way before, the loop
   * has ended, or the database could not be reached until the lease was over: it may then come again. A second call returns what
   * the first did.
   */
  readonly ack: () => Promise<boolean>;
  /**
   * Gives the message back for a retry: it counts an attempt, `reason` is stored as `lastError`, and the outbox's policy says when it
   * comes again or is dead. `retryAfter(delayMs, reason)` sets the delay, `permanentFailure(reason)` makes it dead at once. Resolves
   * as `ack` does.
   */
  readonly nack: (reason: unknown) => Promise<boolean>;
}

/** An outbox as a stream. */
export interface Streaming<Topics extends TopicSchemas = TopicSchemas> {
  /**
   * The messages as an async iterable, for a loop of your own in place of a dispatcher: those of one partition key in the order of
   * enqueueing, and the next one only when the one before it is settled. Claims a batch when the loop has taken the one before. Any number of
   * loops, in any number of processes, never hold one message at once. A loop that ends, by `break`, a throw or the signal, releases what
   * it did not acknowledge at no attempt: catch what a message throws, and call `nack`.
   *
   * @example
   * for await (const message of outbox.messages({ signal })) {
   *   try {
   *     await channel.publish(message.topic, message.payload);
   *     await message.ack();
   *   } catch (error) {
   *     await message.nack(error);
   *   }
   * }
   */
  messages(options?: MessagesOptions): AsyncIterableIterator<StreamedMessage<Topics>>;
}

export interface ResolvedMessagesOptions {
  readonly signal?: AbortSignal;
  readonly batchSize: number;
  readonly pollMs: number;
  readonly leaseMs: number;
  readonly timeoutMs: number;
}

const defaults = {
  batchSize: 100,
  pollMs: 500,
  leaseMs: storeDefaults.leaseMs,
  timeoutMs: 5 * 60_000,
} as const;

/** Loads the loop when the first message is asked for: most functions only enqueue. */
export function streaming<Topics extends TopicSchemas>(
  parts: QueueParts,
  store: DispatchStore<QueueMessage>,
): Streaming<Topics> {
  return {
    messages(given = {}) {
      const options = checkedOptions(given);
      const load = async () => new (await import("./message-stream.js")).MessageStream(parts, store, options);
      let loading: ReturnType<typeof load> | undefined;
      const stream = () => (loading ??= load());
      const iterator: AsyncIterableIterator<StreamedMessage> = {
        [Symbol.asyncIterator]: () => iterator,
        next: async () => (await stream()).next(),
        return: async () => (await stream()).return(),
      };
      return iterator as AsyncIterableIterator<StreamedMessage<Topics>>;
    },
  };
}

function checkedOptions(given: MessagesOptions): ResolvedMessagesOptions {
  refuseUnknown(given, [...Object.keys(defaults), "signal"], "messages");
  const options = { ...defaults, ...omitUndefined(given) };
  const { signal, batchSize, pollMs, leaseMs, timeoutMs } = options;
  requireBatchSize(batchSize);
  requireInterval(pollMs, "pollMs");
  for (const [name, ms] of Object.entries({ leaseMs, timeoutMs })) requireDuration(ms, name);
  if (signal !== undefined && typeof signal?.addEventListener !== "function")
    throw new InvalidArgumentError("messages: signal must be an AbortSignal.");
  return options;
}
