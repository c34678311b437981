import {
  type ContentHash,
  type InboxKey,
  type InboxMessage,
  type InboxState,
  inboxStates,
  MessageBase,
  type OutboxKey,
  type OutboxMessage,
  type OutboxState,
  outboxStates,
  type QueueMessage,
  type Resolution,
} from "../queue/message.js";
import { type Dialect, status } from "./dialect.js";
import { rowNumber, type SqlRow } from "./driver.js";
import { fromStoredText, inboxKey, type KeyShape, outboxKey } from "./message-content.js";

/** The differences between inbox and outbox: the key, the names of the states, and the columns beside the shared ones. */
export interface QueueShape<Key, Message, State extends string> extends KeyShape<Key> {
  readonly states: readonly State[];
  /** `owner`: of claimed rows, which leave out the owner, the status, and how a message ended. */
  toMessage(row: SqlRow, dialect: Dialect, owner?: string): Message;
  /** The rows of a state: their status codes, three at most, and whether they are leased where the codes do not say it. */
  rowsIn(state: State): { readonly statuses: readonly number[]; readonly leased: boolean | null };
  stateOf(row: { readonly status: number; readonly leased: boolean }): State;
}

const time = (dialect: Dialect, value: unknown): Date | null =>
  value === null || value === undefined ? null : dialect.fromTime(value);

const text = (value: unknown): string | null => (value as string | null | undefined) ?? null;

/** As it was given: a text with its algorithm, or bytes. */
function hashOf(value: unknown): ContentHash | null {
  const stored = text(value);
  return stored === null || stored.includes(":") ? stored : Buffer.from(stored, "hex");
}

function queueColumns(row: SqlRow, dialect: Dialect, owner: string | undefined): QueueMessage {
  const headers = text(row.headers);
  const isDead = row.status !== undefined && Number(row.status) === status.dead;
  const message = new MessageBase() as Writable<QueueMessage>;
  message.seq = rowNumber(row.seq);
  message.topic = row.topic as string;
  message.type = text(row.type) ?? message.topic;
  message.payload = fromStoredText(row.payload as string);
  message.headers = headers === null ? null : (JSON.parse(fromStoredText(headers)) as Record<string, string>);
  message.correlationId = text(row.correlation_id);
  message.partitionKey = text(row.partition_key);
  message.attempt = Number(row.attempt ?? 0);
  message.dueAt = time(dialect, row.due_at);
  message.expiresAt = time(dialect, row.expires_at);
  message.nextAttemptAt = dialect.fromTime(row.next_attempt_at);
  message.lockedUntil = time(dialect, row.locked_until);
  message.owner = owner ?? (row.owner as string | null | undefined)?.toLowerCase() ?? null;
  message.lastError = text(row.last_error);
  message.lastAttemptAt = time(dialect, row.processed_at ?? row.last_attempt_at);
  message.diedAt = isDead ? time(dialect, row.died_at) : null;
  message.errorGroup = isDead ? (text(row.error_group) ?? "") : null;
  message.processedAt = time(dialect, row.processed_at);
  message.processedBy = text(row.processed_by);
  message.crashes = Number(row.crashes ?? 0);
  return message;
}

type Writable<Message> = { -readonly [Name in keyof Message]: Message[Name] };

const inboxStateOf = (code: number): InboxState =>
  code === status.seen
    ? "Seen"
    : code === status.done
      ? "Done"
      : code === status.dead
        ? "Dead"
        : "Processing";

export const inboxShape: QueueShape<InboxKey, InboxMessage, InboxState> = {
  ...inboxKey,
  states: inboxStates,
  // Set one by one: Object.assign, and even more a literal that spreads so many properties, takes twice as long.
  toMessage(row, dialect, owner) {
    const message = queueColumns(row, dialect, owner) as Writable<InboxMessage>;
    message.state = inboxStateOf(Number(row.status ?? status.ready));
    message.source = row.source as string;
    message.messageId = row.message_id as string;
    message.hash = hashOf(row.hash);
    message.firstSeenAt = dialect.fromTime(row.first_seen_at);
    message.lastSeenAt = dialect.fromTime(row.last_seen_at ?? row.first_seen_at);
    message.deliveries = Number(row.deliveries ?? 1);
    message.resolution = text(row.resolution) as Resolution | null;
    if (message.resolution !== null) message.lastAttemptAt = null; // its attempts are in the archive
    return message;
  },
  rowsIn: (state) =>
    ({
      Seen: { statuses: [status.seen], leased: null },
      Processing: { statuses: [status.ready, status.processing, status.blocked], leased: null },
      Done: { statuses: [status.done], leased: null },
      Dead: { statuses: [status.dead], leased: null },
    })[state],
  stateOf: (row) => inboxStateOf(row.status),
};

const outboxStateOf = (code: number, leased: boolean): OutboxState =>
  code === status.done ? "Done" : code === status.dead ? "Failed" : leased ? "InProgress" : "Ready";

export const outboxShape: QueueShape<OutboxKey, OutboxMessage, OutboxState> = {
  ...outboxKey,
  states: outboxStates,
  toMessage(row, dialect, owner) {
    const message = queueColumns(row, dialect, owner) as Writable<OutboxMessage>;
    message.state = outboxStateOf(Number(row.status ?? status.ready), row.locked_until !== null);
    message.id = (row.id as string).toLowerCase();
    message.messageId = (row.message_id as string).toLowerCase();
    message.naturalKey = text(row.natural_key);
    message.createdAt = dialect.fromTime(row.created_at);
    return message;
  },
  rowsIn: (state) =>
    ({
      Ready: { statuses: [status.ready, status.blocked], leased: false },
      InProgress: { statuses: [status.ready], leased: true },
      Done: { statuses: [status.done], leased: null },
      Failed: { statuses: [status.dead], leased: null },
    })[state],
  stateOf: (row) => outboxStateOf(row.status, row.leased),
};
