import {
  type InboxKey,
  type InboxMessage,
  inboxStates,
  type OutboxKey,
  type OutboxMessage,
  outboxStates,
} from "./message.js";
import type { Operators } from "./operators.js";
import type { WorkStore } from "./work-store.js";

export const queueKinds = ["inbox", "outbox"] as const;
export type QueueKind = (typeof queueKinds)[number];

export type AnyKey = InboxKey | OutboxKey;
export type AnyMessage = InboxMessage | OutboxMessage;

/** A queue with what operators do, of a kind that is known only at run time. The keys and states are those of its own kind. */
export interface AnyQueue extends Omit<WorkStore<AnyKey, AnyMessage, string>, "replay">, Operators<AnyKey> {}

export const queueOf = (stores: Readonly<Record<QueueKind, unknown>>, queue: QueueKind): AnyQueue =>
  stores[queue] as AnyQueue;

export const statesOf = { inbox: inboxStates, outbox: outboxStates } as const;

/** The state of dead messages is called Failed in the outbox. */
export const deadState = { inbox: "Dead", outbox: "Failed" } as const;
