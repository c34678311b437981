import type { Budget } from "../../base/budget.js";
import type { DispatchResult } from "../../dispatch/dispatch-run.js";
import type { Dispatcher } from "../../dispatch/dispatcher.js";
import { InvalidOperationError } from "../../errors.js";
import type { InboxMessage, OutboxMessage, QueueMessage } from "../../queue/message.js";
import type { DispatchStore } from "../../queue/work-store.js";
import type { SqlExecutor } from "../../sql/driver.js";
import type { TenantStores } from "../connections/tenant-stores.js";
import { oneBatch } from "./one-batch.js";
import type { Due } from "./poll.js";

/** What handles a tenant's messages; undefined leaves that queue to others. */
export interface TenantDispatchers {
  readonly inbox: Dispatcher<InboxMessage, SqlExecutor> | undefined;
  readonly outbox: Dispatcher<OutboxMessage, SqlExecutor> | undefined;
}

export interface TurnOptions {
  readonly dispatchers: TenantDispatchers;
  /** A database that takes longer to answer a claim hangs. */
  readonly pollMs: number;
  readonly onResult: (queue: "inbox" | "outbox", result: DispatchResult) => void;
}

/** Handles a batch of each queue that has something. Answers whether there may be more. */
export async function tenantTurn(
  stores: TenantStores,
  found: Due,
  budget: Budget,
  { dispatchers, pollMs, onResult }: TurnOptions,
): Promise<boolean> {
  const batch = async <Message extends QueueMessage>(
    queue: "inbox" | "outbox",
    dispatcher: Dispatcher<Message, SqlExecutor> | undefined,
    store: DispatchStore<Message, SqlExecutor>,
  ): Promise<DispatchResult | undefined> => {
    if (dispatcher === undefined) return undefined;
    const one = oneBatch(store);
    const result = await dispatcher.run(one.store, budget);
    onResult(queue, result);
    if (one.unansweredMs() >= pollMs) throw noAnswer(queue);
    return result;
  };

  const settled = await Promise.allSettled([
    found.inbox ? batch("inbox", dispatchers.inbox, stores.inbox) : undefined,
    found.outbox ? batch("outbox", dispatchers.outbox, stores.outbox) : undefined,
  ]);
  // One that failed must not end the turn while the other still works.
  const failed = settled.find((one) => one.status === "rejected");
  if (failed !== undefined) throw failed.reason;
  // A handler of the inbox may have filled the outbox, so a turn that found something is followed by another look.
  const results = settled.map((one) => (one.status === "fulfilled" ? one.value : undefined));
  return results.some(
    (result) => result !== undefined && (result.claimed > 0 || result.stopped !== "drained"),
  );
}

const noAnswer = (queue: string) =>
  new InvalidOperationError(`The ${queue} did not answer a claim within the turn's time.`);
