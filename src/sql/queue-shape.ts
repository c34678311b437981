import { InvalidArgumentError } from "../errors.js";
import { requireName } from "../queue/arguments.js";
import { isGuid } from "../queue/guid.js";
import {
  type InboxKey,
  type InboxMessage,
  type InboxState,
  inboxStates,
  type OutboxKey,
  type OutboxMessage,
  type OutboxState,
  outboxStates,
  type QueueMessage,
} from "../queue/message.js";
import type { Dialect } from "./dialect.js";
import { status } from "./dialect.js";
import type { SqlParams, SqlRow } from "./driver.js";
import { fromStoredText } from "./stored-text.js";

/** What tells an inbox from an outbox: the key, the names of the states, and the columns beside the shared ones. */
export interface QueueShape<Key, Message, State extends string> {
  readonly states: readonly State[];
  /** Checks a key from outside. */
  readonly key: (value: Key) => Key;
  /** The same string for the same key. */
  readonly keyText: (key: Key) => string;
  readonly keyParams: (key: Key) => SqlParams;
  readonly keyOf: (row: SqlRow) => Key;
  /** For logs. */
  readonly describe: (key: Key) => Readonly<Record<string, string>>;
  /** `owner`: of claimed rows, which may leave out what the claim itself says. */
  readonly toMessage: (row: SqlRow, dialect: Dialect, owner?: string) => Message;
  /** Which rows a state means: status codes and, where they do not tell, whether a lease is held. */
  readonly rowsIn: (state: State) => {
    readonly statuses: readonly number[];
    readonly leased: boolean | null;
  };
  readonly stateOf: (row: { readonly status: number; readonly leased: boolean }) => State;
}

const time = (dialect: Dialect, value: unknown): Date | null =>
  value === null || value === undefined ? null : dialect.fromTime(value);

function common(row: SqlRow, dialect: Dialect, owner: string | undefined): QueueMessage {
  const headers = row.headers as string | null;
  return {
    seq: Number(row.seq),
    topic: row.topic as string,
    payload: fromStoredText(row.payload as string),
    headers: headers === null ? null : (JSON.parse(fromStoredText(headers)) as Record<string, string>),
    correlationId: row.correlation_id as string | null,
    attempt: Number(row.attempt),
    dueAt: time(dialect, row.due_at),
    expiresAt: time(dialect, row.expires_at),
    nextAttemptAt: dialect.fromTime(row.next_attempt_at),
    lockedUntil: time(dialect, row.locked_until),
    owner: ((row.owner as string | null | undefined) ?? owner)?.toLowerCase() ?? null,
    lastError: row.last_error as string | null,
    processedAt: time(dialect, row.processed_at),
    processedBy: (row.processed_by as string | null | undefined) ?? null,
    afterCrash: Number(row.crashes) > 0,
  };
}

const isLeased = (row: SqlRow): boolean => row.locked_until !== null;

const inboxStateOf = (code: number): InboxState =>
  code === status.seen
    ? "Seen"
    : code === status.done
      ? "Done"
      : code === status.dead
        ? "Dead"
        : "Processing";

export const inboxShape: QueueShape<InboxKey, InboxMessage, InboxState> = {
  states: inboxStates,
  key(value) {
    requireName(value?.source, "source");
    requireName(value.messageId, "messageId");
    return value;
  },
  keyText: (key) => JSON.stringify([key.source, key.messageId]),
  keyParams: (key) => ({ source: key.source, message_id: key.messageId }),
  keyOf: (row) => ({ source: row.source as string, messageId: row.message_id as string }),
  describe: (key) => ({ source: key.source, messageId: key.messageId }),
  // Object.assign: a literal that spreads this many properties costs many times as much, for every message
  toMessage: (row, dialect, owner) =>
    Object.assign(common(row, dialect, owner), {
      state: inboxStateOf(Number(row.status ?? status.held)),
      source: row.source as string,
      messageId: row.message_id as string,
      hash: row.hash as Uint8Array | null,
      firstSeenAt: dialect.fromTime(row.first_seen_at),
      lastSeenAt: dialect.fromTime(row.last_seen_at),
      deliveries: Number(row.deliveries),
    }),
  rowsIn: (state) =>
    ({
      Seen: { statuses: [status.seen], leased: null },
      Processing: { statuses: [status.ready, status.held], leased: null },
      Done: { statuses: [status.done], leased: null },
      Dead: { statuses: [status.dead], leased: null },
    })[state],
  stateOf: (row) => inboxStateOf(row.status),
};

const outboxStateOf = (code: number, leased: boolean): OutboxState =>
  code === status.done ? "Done" : code === status.dead ? "Failed" : leased ? "InProgress" : "Ready";

export const outboxShape: QueueShape<OutboxKey, OutboxMessage, OutboxState> = {
  states: outboxStates,
  key(value) {
    if (!isGuid(value?.id)) {
      throw new InvalidArgumentError("An outbox message is named by { id }, the GUID that enqueue answered.");
    }
    return value;
  },
  keyText: (key) => key.id.toLowerCase(),
  keyParams: (key) => ({ id: key.id.toLowerCase() }),
  keyOf: (row) => ({ id: (row.id as string).toLowerCase() }),
  describe: (key) => ({ id: key.id }),
  toMessage: (row, dialect, owner) =>
    Object.assign(common(row, dialect, owner), {
      state: outboxStateOf(Number(row.status ?? status.held), isLeased(row)),
      id: (row.id as string).toLowerCase(),
      messageId: (row.message_id as string).toLowerCase(),
      createdAt: dialect.fromTime(row.created_at),
    }),
  rowsIn: (state) =>
    ({
      Ready: { statuses: [status.ready, status.held], leased: false },
      InProgress: { statuses: [status.ready, status.held], leased: true },
      Done: { statuses: [status.done], leased: null },
      Failed: { statuses: [status.dead], leased: null },
    })[state],
  stateOf: (row) => outboxStateOf(row.status, row.leased),
};
