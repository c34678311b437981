/** What the API returns, as JSON: times are texts. */
import type { Queue } from "./routes.js";

export interface InboxKey {
  readonly source: string;
  readonly messageId: string;
}
export interface OutboxKey {
  readonly id: string;
}
export type Key = InboxKey | OutboxKey;

export interface Stats {
  readonly phases: Readonly<Record<Phase, number>>;
  readonly due: number;
  readonly oldestDueAgeMs: number | null;
  readonly expired: number;
}

export interface Bucket {
  readonly from: string;
  readonly until: string;
  readonly enqueued: number;
  readonly done: number;
  readonly dead: number;
  /** Neither done nor dead. */
  readonly unfinished: number;
}
export interface Activity {
  readonly buckets: readonly Bucket[];
  readonly truncated: boolean;
}

/** A message without its payload and the values of its headers. */
export interface ListedMessage {
  readonly source?: string;
  readonly messageId: string;
  readonly id?: string;
  readonly topic: string;
  readonly type: string;
  readonly state: string;
  readonly phase: Phase;
  readonly attempt: number;
  readonly correlationId: string | null;
  readonly partitionKey: string | null;
  /** Of the outbox. */
  readonly naturalKey?: string | null;
  readonly lastError: string | null;
  readonly lastAttemptAt: string | null;
  /** Of a dead message. */
  readonly diedAt: string | null;
  readonly errorGroup: string | null;
  /** Null when it is done or dead. */
  readonly nextAttemptAt: string | null;
  readonly dueAt: string | null;
  readonly expiresAt: string | null;
  readonly lockedUntil: string | null;
  readonly owner: string | null;
  readonly processedAt: string | null;
  readonly processedBy: string | null;
  readonly crashes: number;
  readonly firstSeenAt?: string;
  readonly lastSeenAt?: string;
  readonly deliveries?: number;
  readonly createdAt?: string;
}
export interface MessagePage {
  readonly messages: readonly ListedMessage[];
  readonly cursor: number | null;
}

export interface Attempt {
  readonly attempt: number;
  readonly endedAt: string;
  readonly worker: string | null;
  readonly error: string | null;
}
export interface WholeMessage extends ListedMessage {
  readonly payload?: string;
  readonly headers?: Readonly<Record<string, string>> | null;
}
export interface MessageWithAttempts extends WholeMessage {
  readonly attempts: readonly Attempt[];
}

export interface DeadGroup {
  readonly errorGroup: string;
  readonly count: number;
  readonly firstAt: string;
  readonly lastAt: string;
  readonly example: Key;
  readonly error: string | null;
}

export const bulkActions = ["replay", "discard", "archive"] as const;
export type BulkAction = (typeof bulkActions)[number];
export const actionNames: Readonly<Record<BulkAction, string>> = {
  replay: "Replay",
  discard: "Discard",
  archive: "Archive",
};

export interface Operation {
  readonly id: string;
  readonly queue: Queue;
  readonly action: BulkAction | "edit" | "pause" | "resume" | "limit";
  readonly at: string;
  readonly by: string;
  readonly filter: Readonly<Record<string, unknown>>;
  readonly matched: number;
  readonly done: number;
  readonly endedAt: string | null;
  readonly resumedBy: string | null;
  readonly resumedAt: string | null;
}

export interface Settlement {
  readonly changed: readonly Key[];
  readonly lost: readonly Key[];
}

export interface BlockedPartition {
  readonly partitionKey: string;
  readonly head: Key;
  readonly topic: string;
  readonly reason: "dead" | "leased" | "paused" | "retrying" | "scheduled";
  readonly attempt: number;
  readonly error: string | null;
  readonly nextAttemptAt: string | null;
  readonly waiting: number;
  readonly since: string;
}

export interface UnhandledTopic {
  readonly topic: string;
  readonly messages: number;
  readonly lastSeenAt: string;
}

export interface Control {
  readonly scope: "queue" | "topic" | "source";
  /** Null for the whole queue. */
  readonly name: string | null;
  readonly paused: boolean;
  readonly perSecond: number | null;
  readonly by: string;
  readonly at: string;
  readonly waiting: number;
}

export interface TraceStep {
  readonly queue: Queue;
  readonly key: Key;
  readonly topic: string;
  readonly phase: Phase;
  readonly messageId: string;
  readonly attempt: number;
  readonly lastError: string | null;
  readonly enqueuedAt: string;
  readonly firstAttemptAt: string | null;
  readonly doneAt: string | null;
  readonly diedAt: string | null;
}

export interface QueueReport {
  readonly due: number;
  readonly oldestDueAgeMs: number | null;
  readonly pausedMessages: number;
  readonly dead: number;
}
/** The reports are there when the tenant's database could be read. */
export interface Tenant {
  readonly tenant: string;
  readonly state: "active" | "paused" | "unreachable" | "quarantined";
  readonly reason?: string;
  readonly inbox?: QueueReport;
  readonly outbox?: QueueReport;
}
export interface TenantPage {
  readonly tenants: readonly Tenant[];
  readonly cursor: string | null;
}

export const keyOf = ({ source, messageId, id }: Partial<InboxKey & OutboxKey>): Key =>
  id === undefined ? { source: source!, messageId: messageId! } : { id };

export const phases = ["waiting", "retrying", "running", "paused", "done", "dead"] as const;
/** Few inboxes have messages in them, and no outbox has. */
export const inboxPhases = ["archived", "replaced", "seen"] as const;
/** Where a message is. */
export type Phase = (typeof phases)[number] | (typeof inboxPhases)[number];
/** Whether an operator has ended such a message. */
export const isResolved = (phase: Phase): boolean => phase === "archived" || phase === "replaced";
