import { createHash } from "node:crypto";
import { PayloadNotJsonError } from "../errors.js";

/** What inbox and outbox messages have in common. Times are the database's, in UTC. */
export interface QueueMessage {
  /** The row's number. A claimed message is settled by it. */
  readonly seq: number;
  readonly topic: string;
  /** What kind of event the message tells of: the topic, unless its sender said otherwise. */
  readonly type: string;
  readonly payload: string;
  /**
   * The payload, parsed as JSON when it is first read. With a schema: what the schema made of it. Without one a copy
   * (`{ ...message }`) does not have it: read it from the message itself, or copy it by name: `{ ...message, data: message.data }`.
   */
  readonly data: unknown;
  readonly headers: Readonly<Record<string, string>> | null;
  readonly correlationId: string | null;
  /** Messages with the same partition key are handled one at a time and in order. */
  readonly partitionKey: string | null;
  /** Failed attempts so far: 0 at the first delivery. */
  readonly attempt: number;
  readonly dueAt: Date | null;
  readonly expiresAt: Date | null;
  /** When the message can be claimed next: its due time or back-off; while leased, the end of the lease and the back-off after it. */
  readonly nextAttemptAt: Date;
  readonly lockedUntil: Date | null;
  readonly owner: string | null;
  readonly lastError: string | null;
  /** When the last attempt ended: done, abandoned, failed, or lost with its lease and reaped. */
  readonly lastAttemptAt: Date | null;
  /** Of a dead message: when it died, and the group of its error, as in `deadGroups`. Null in every other state. */
  readonly diedAt: Date | null;
  readonly errorGroup: string | null;
  readonly processedAt: Date | null;
  readonly processedBy: string | null;
  /**
   * Leases on the message that expired since it was last abandoned or replayed. A handler may have killed its process, so from the
   * second crash on the message is claimed and handled by itself.
   */
  readonly crashes: number;
}

export const inboxStates = ["Seen", "Processing", "Done", "Dead"] as const;
/** The state of a received message. */
export type InboxState = (typeof inboxStates)[number];

/** How operators resolve dead messages of an inbox: by `archive`, and by `editAndReplay`, which enqueues another instead. */
export const resolutions = ["archived", "replaced"] as const;
export type Resolution = (typeof resolutions)[number];

/** What identifies a received message: its sender, and the sender's id of it. */
export interface InboxKey {
  readonly source: string;
  readonly messageId: string;
}

/**
 * A hash of a message's content: an algorithm and hexadecimal digits, such as `sha256:9f86d0…`, or bytes, whose algorithm is not
 * said. Only hashes of one algorithm are compared, and bytes with bytes.
 */
export type ContentHash = string | Uint8Array;

/** A received message, as handlers get it. */
export interface InboxMessage extends QueueMessage, InboxKey {
  readonly state: InboxState;
  readonly hash: ContentHash | null;
  readonly firstSeenAt: Date;
  readonly lastSeenAt: Date;
  /** How often the message has arrived. */
  readonly deliveries: number;
  /** Of a Done message that no handler has done: how an operator resolved it. */
  readonly resolution: Resolution | null;
}

export const outboxStates = ["Ready", "InProgress", "Done", "Failed"] as const;
/** The state of a message to send. */
export type OutboxState = (typeof outboxStates)[number];

/** What identifies a message to send. */
export interface OutboxKey {
  readonly id: string;
}

/** A message to send, as publishers get it. */
export interface OutboxMessage extends QueueMessage, OutboxKey {
  readonly state: OutboxState;
  /** The same on every delivery of this message, for receivers to deduplicate by. */
  readonly messageId: string;
  /** What made a second enqueue with the same topic and key return this message; null for most. */
  readonly naturalKey: string | null;
  readonly createdAt: Date;
}

/** The fields that a message to receive and a message to send have in common. */
export interface MessageContent {
  readonly topic: string;
  /** What kind of event it tells of, for receivers; the topic by default. Publishers send it, and no handler is selected by it. */
  readonly type?: string | null | undefined;
  /** Any text; it may be empty. */
  readonly payload: string;
  readonly correlationId?: string | null | undefined;
  /** Messages with the same partition key are handled one at a time, in the order in which they were enqueued. */
  readonly partitionKey?: string | null | undefined;
  readonly headers?: Readonly<Record<string, string>> | null | undefined;
  /** The message is not claimed before this time; due at once by default. */
  readonly dueAt?: Date | null | undefined;
  /** A message that is not handled by this time is dead (in the inbox) or failed (in the outbox). */
  readonly expiresAt?: Date | null | undefined;
}

export const contentFields: readonly string[] = [
  "topic",
  "type",
  "payload",
  "correlationId",
  "partitionKey",
  "headers",
  "dueAt",
  "expiresAt",
] satisfies (keyof MessageContent)[];

/** A message to send. */
export interface OutgoingMessage extends MessageContent {
  /** A GUID by which receivers deduplicate; the message's own `id` by default. */
  readonly messageId?: string | undefined;
  /**
   * What the message is about, such as `invoice-7`. Of all messages of a topic with the same natural key, the first is
   * enqueued: another call adds nothing and returns its id, as long as it is in the outbox, also when it is done or failed.
   */
  readonly naturalKey?: string | null | undefined;
}

/** A message whose content is given as a value, instead of as text. */
export type WithData<Message extends { readonly payload: string }> =
  | (Omit<Message, "payload"> & {
      /** Any text; it may be empty. */
      readonly payload: string | GiveObjectsAsData;
    })
  | (Omit<Message, "payload"> & {
      /** Stored as JSON. Handlers read it as `data`. */
      readonly data: unknown;
      readonly payload?: undefined;
    });

/** No value has this type: its name is what the compiler says of an object as `payload`. */
interface GiveObjectsAsData {
  readonly "payload is text: give an object as data": never;
}

/**
 * Where a message is, in the words of operators. The words are the same for both queues, and true while a pause holds. A message
 * that a pause holds is paused from the pause on. `seen`, `archived` and `replaced` exist only in the inbox: the outbox keeps
 * no such message.
 */
export const phases = [
  "waiting",
  "retrying",
  "running",
  "paused",
  "done",
  "dead",
  "archived",
  "replaced",
  "seen",
] as const;
export type Phase = (typeof phases)[number];

/** The phases that the outbox does not have. */
export const inboxPhases: readonly Phase[] = ["archived", "replaced", "seen"];

/**
 * What messages are made of. `data` is the payload, parsed when it is first read. It is no property of the message itself: a copy
 * would parse, and fail with a payload that is not JSON; and a getter of its own made a message take 20 times as long to make, some
 * 0.8 µs more. A class, because V8 is fifty times slower with objects whose prototype
 * a literal names.
 */
export class MessageBase {
  get data(): unknown {
    const { topic, payload } = this as unknown as { readonly topic: string; readonly payload: string };
    const value = parsed(topic, payload);
    Object.defineProperty(this, "data", { value });
    return value;
  }
}

/** JSON.parse's own error quotes the payload. */
export function parsed(topic: string, payload: string): unknown {
  try {
    return JSON.parse(payload);
  } catch {
    throw new PayloadNotJsonError(`The payload of "${topic}" is not JSON.`);
  }
}

const guidsInText = /\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b/gi;
const quotedParts = /"[^"]*"|`[^`]*`|(?<!\w)'[^']*'(?!\w)/g;
const hexNumbers = /\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)[0-9a-f]{8,}\b/gi;
const decimalNumbers = /\d+(?:[.,:]\d+)*/g;

/** An error without what differs from message to message: ids, quoted parts, numbers. */
export const normaliseError = (error: string): string =>
  error
    .slice(0, 1_000)
    .replace(guidsInText, "<id>")
    .replace(quotedParts, "<text>")
    .replace(hexNumbers, "<id>")
    .replace(decimalNumbers, "<n>")
    .replace(/\s+/g, " ")
    .trim();

/** Names the group of an error: the same for errors that differ only in ids, quoted parts and numbers. Null without an error. */
export const errorGroupOf = (error: string | null | undefined): string | null =>
  error ? createHash("sha256").update(normaliseError(error)).digest("hex").slice(0, 16) : null;
