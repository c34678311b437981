import { queueName } from "../queue/measure-queue.js";
import type { QueueMessage } from "../queue/message.js";
import type { RunState } from "./run-state.js";

export type MessageCount =
  | "oncebox.claimed"
  | "oncebox.acked"
  | "oncebox.retried"
  | "oncebox.released"
  | "oncebox.lease.lost";

/** Counts messages of a run: once for each call of the store, not once for each message. */
export function countMessages<Message extends QueueMessage, Tx>(
  { config, store }: RunState<Message, Tx>,
  name: MessageCount,
  messages: number,
): void {
  if (messages > 0) config.metrics?.count(name, messages, { queue: queueName(store) });
}
