/** What inbox and outbox messages have in common. Times are the database's, in UTC. */
export interface QueueMessage {
  /** The row's number. A claimed message is settled by it. */
  readonly seq: number;
  readonly topic: string;
  readonly payload: string;
  /** The payload, parsed as JSON when it is first read. With a schema: what the schema made of it. */
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
   * Leases on the message that expired since it was last settled. A handler may have killed its process, so from the
   * second crash on the message is claimed and handled alone.
   */
  readonly crashes: number;
}

export const inboxStates = ["Seen", "Processing", "Done", "Dead"] as const;
export type InboxState = (typeof inboxStates)[number];

/** How operators end dead messages of an inbox: by `archive`, and by `editAndReplay`, which enqueues another instead. */
export const endings = ["archived", "replaced"] as const;
export type EndedAs = (typeof endings)[number];

export interface InboxKey {
  readonly source: string;
  readonly messageId: string;
}

export interface InboxMessage extends QueueMessage, InboxKey {
  readonly state: InboxState;
  readonly hash: Uint8Array | null;
  readonly firstSeenAt: Date;
  readonly lastSeenAt: Date;
  /** How often the message has arrived. */
  readonly deliveries: number;
  /** Of a Done message that no handler has done: how an operator ended it. */
  readonly endedAs: EndedAs | null;
}

export const outboxStates = ["Ready", "InProgress", "Done", "Failed"] as const;
export type OutboxState = (typeof outboxStates)[number];

export interface OutboxKey {
  readonly id: string;
}

export interface OutboxMessage extends QueueMessage, OutboxKey {
  readonly state: OutboxState;
  /** The same on every delivery of this message, for receivers to deduplicate by. */
  readonly messageId: string;
  /** What made a second enqueue with the same topic and key return this message; null for most. */
  readonly naturalKey: string | null;
  readonly createdAt: Date;
}
