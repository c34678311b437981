import { maxNameLength } from "../queue/arguments.js";

/**
 * The routines by which services in other languages enqueue and receive, with plain parameters, in their own transactions.
 * They refuse what `enqueue` and `receive` refuse, in these words.
 */
export const plainColumns = {
  /** Names that every message of the queue has. */
  names: { inbox: ["source", "message_id", "topic"], outbox: ["topic"] },
  /** Names that a message may have. An empty correlation id counts as absent. */
  keys: { inbox: ["type", "partition_key"], outbox: ["type", "partition_key", "natural_key"] },
} as const;

export const refusals = {
  name: (column: string): string =>
    `${column} must have 1 to ${maxNameLength} characters, and no space at its end.`,
  payload: "payload must be given; it may be empty.",
  headers: "headers must be a JSON object whose values are strings.",
  guid: (column: string): string => `${column} must be a GUID. Leave it out for a new one.`,
  hash: "hash must be an algorithm, a colon and hexadecimal digits, such as sha256:9f86d081, or only the digits.",
  time: (column: string): string => `${column} must be a time between the years 1970 and 9998.`,
} as const;

export const times = ["due_at", "expires_at"] as const;
