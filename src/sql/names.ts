import { InvalidArgumentError } from "../errors.js";

/** The longest name a user may give: PostgreSQL cuts at 63 bytes, and we append to it. */
const maxNameBytes = 40;

export const identifierRule = `must be a name of 1 to ${maxNameBytes} bytes without control characters`;

/** A line break could end a comment, or a batch, of a script that a DBA runs. PostgreSQL has no NUL in a name. */
const controlCharacter = /[^ -~\u00a0-\uffff]/;

export const isIdentifier = (value: unknown): value is string =>
  typeof value === "string" &&
  value !== "" &&
  !controlCharacter.test(value) &&
  value.isWellFormed() &&
  Buffer.byteLength(value) <= maxNameBytes;

export function requireIdentifier(value: unknown, what: string): asserts value is string {
  if (!isIdentifier(value)) throw new InvalidArgumentError(`${what} ${identifierRule}.`);
}

/** The quoted names of one queue's objects, ready to stand in a statement. */
export interface QueueNames {
  readonly kind: "inbox" | "outbox";
  /** Unquoted, as the user gave them. */
  readonly schema: string;
  readonly table: string;
  /** The table of messages: key, topic, payload. A row is written once. */
  readonly message: string;
  /** The table of states: narrow rows that claim and ack rewrite. */
  readonly state: string;
  /** The view of both, which has the queue's own name, and the specification's columns and values. See docs/decisions/0041. */
  readonly view: string;
  /** Another object of this queue: an index, a trigger, a procedure. */
  readonly object: (suffix: string) => string;
  /** The same for objects that are created without their schema in front (indexes in PostgreSQL). */
  readonly bare: (suffix: string) => string;
}

/** The names of a queue, given how a dialect writes the name of one of its objects. */
export function queueNames(
  queue: Pick<QueueNames, "kind" | "schema" | "table">,
  { object, bare }: Pick<QueueNames, "object" | "bare">,
  suffix: { readonly message: string; readonly state: string },
): QueueNames {
  return {
    ...queue,
    message: object(suffix.message),
    state: object(suffix.state),
    view: object(""),
    object,
    bare,
  };
}

/** Names a queue within its schema, in the ledger and in the records of operations. */
export const queueId = (queue: Pick<QueueNames, "kind" | "table">): string => `${queue.kind}:${queue.table}`;

/** The columns in which the two kinds of message table differ, the same in every dialect. */
export const keyColumns = (n: QueueNames): readonly string[] =>
  n.kind === "inbox" ? ["source", "message_id"] : ["id"];
export const createdColumn = (n: QueueNames): string => (n.kind === "inbox" ? "first_seen_at" : "created_at");
export const lastSeenAt = (n: QueueNames): string => (n.kind === "inbox" ? "last_seen_at" : "created_at");

/** A string as SQL text, where a parameter is not possible. SQL Server puts an N before it. */
export const literal = (value: string): string => `'${value.replaceAll("'", "''")}'`;
