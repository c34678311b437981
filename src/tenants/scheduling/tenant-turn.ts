import type { Budget } from "../../base/budget.js";
import type { DispatchResult } from "../../dispatch/dispatch-run.js";
import type { Dispatcher } from "../../dispatch/dispatcher.js";
import { InvalidOperationError } from "../../errors.js";
import type { InboxMessage, OutboxMessage, QueueMessage } from "../../queue/message.js";
import type { DispatchStore } from "../../queue/work-store.js";
import type { SqlExecutor } from "../../sql/driver.js";
import type { TenantStores } from "../connections/tenant-stores.js";
import type { Due } from "./poll.js";
import { singleBatchStore } from "./single-batch-store.js";

/** The dispatchers of a tenant's queues; a queue whose dispatcher is undefined is left alone. */
export interface TenantDispatchers {
  readonly inbox: Dispatcher<InboxMessage, SqlExecutor> | undefined;
  readonly outbox: Dispatcher<OutboxMessage, SqlExecutor> | undefined;
}

export interface TenantTurnOptions {
  readonly dispatchers: TenantDispatchers;
  /** A claim that is pending for longer is an error. */
  readonly pollTimeoutMs: number;
  readonly onResult: (queue: "inbox" | "outbox", result: DispatchResult) => void;
}

/** Handles one batch of each queue that is due. Returns whether there may be more. */
export async function tenantTurn(
  stores: TenantStores,
  due: Due,
  budget: Budget,
  { dispatchers, pollTimeoutMs, onResult }: TenantTurnOptions,
): Promise<boolean> {
  const batch = async <Message extends QueueMessage>(
    queue: "inbox" | "outbox",
    dispatcher: Dispatcher<Message, SqlExecutor> | undefined,
    store: DispatchStore<Message, SqlExecutor>,
  ): Promise<DispatchResult | undefined> => {
    if (dispatcher === undefined) return undefined;
    const single = singleBatchStore(store);
    const result = await dispatcher.run(single.store, budget);
    onResult(queue, result);
    if (single.pendingClaimMs() >= pollTimeoutMs) throw claimTimeout(queue, pollTimeoutMs);
    return result;
  };

  const settled = await Promise.allSettled([
    due.inbox ? batch("inbox", dispatchers.inbox, stores.inbox) : undefined,
    due.outbox ? batch("outbox", dispatchers.outbox, stores.outbox) : undefined,
  ]);
  // A queue that failed must not end the turn while the other still works.
  const failed = settled.find((one) => one.status === "rejected");
  if (failed !== undefined) throw failed.reason;
  // A handler of the inbox may have filled the outbox, so a turn that found something is followed by another poll.
  const results = settled.map((one) => (one.status === "fulfilled" ? one.value : undefined));
  return results.some(
    (result) => result !== undefined && (result.claimed > 0 || result.stopped !== "drained"),
  );
}

const claimTimeout = (queue: string, ms: number) =>
  new InvalidOperationError(`The ${queue} did not return a claim within ${ms} ms (pollTimeoutMs).`);
