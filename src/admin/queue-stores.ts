import type { Inbox } from "../inbox/inbox.js";
import type { Outbox } from "../outbox/outbox.js";
import {
  type InboxKey,
  type InboxMessage,
  inboxStates,
  type OutboxKey,
  type OutboxMessage,
  outboxStates,
} from "../queue/message.js";
import type { WorkStore } from "../queue/work-store.js";

export const queueKinds = ["inbox", "outbox"] as const;
export type QueueKind = (typeof queueKinds)[number];

export type AnyKey = InboxKey | OutboxKey;
export type AnyMessage = InboxMessage | OutboxMessage;

/** A queue whose kind is known only at run time. The keys and states are those of its own kind. */
export type QueueStore = WorkStore<AnyKey, AnyMessage, string>;

/** The queues of one database. */
export interface AdminStores {
  readonly inbox: Inbox;
  readonly outbox: Outbox;
}

/** The queues of many tenants: what `createTenantStores` of `oncebox/tenants` returns, for example. */
export interface AdminTenants {
  /** The ids of all tenants. */
  list(): Promise<readonly string[]>;
  /** Undefined for an unknown tenant. */
  find(id: string): Promise<AdminStores | undefined>;
  /** Whether the dispatcher of this process leaves the tenant alone, where this process has one. */
  isQuarantined?(id: string): boolean;
}

export const storeOf = (stores: AdminStores, queue: QueueKind): QueueStore =>
  stores[queue] as unknown as QueueStore;

export const statesOf = { inbox: inboxStates, outbox: outboxStates } as const;

/** The state of dead messages is called Failed in the outbox. */
export const deadState = { inbox: "Dead", outbox: "Failed" } as const;
