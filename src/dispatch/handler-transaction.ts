import { safeReason } from "../base/safe-reason.js";
import { LeaseLostError } from "../queue/lease-lost-error.js";
import type { QueueMessage } from "../queue/message.js";
import { type HeldMessage, type RunState, renewApart } from "./run-state.js";

/** No transaction could be begun, so the handler was not called. Without a cause, there was no time for it. */
export class NotCalledError extends Error {
  override readonly name = "NotCalledError";

  /** For the log. */
  readonly reason: string;

  constructor(cause?: unknown) {
    const reason = cause === undefined ? "There was no time left." : safeReason(cause);
    super(reason, { cause });
    this.reason = reason;
  }
}

/** Commits the handler's writes together with the acknowledgement. If the lease is lost, nothing is committed. */
export async function inHandlerTransaction<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
  work: (tx: Tx) => Promise<void>,
): Promise<void> {
  const { store } = run;
  held.transaction = new AbortController();
  const { signal } = held.transaction;
  try {
    await store.transaction(
      async (tx) => {
        held.isCalled = true;
        // It may have waited for its transaction longer than its lease, in a process that was frozen meanwhile.
        if (performance.now() >= held.lease.expiresAt) throw new LeaseLostError();
        await work(tx);
        held.isAcking = true;
        renewApart(run, [held]);
        const { lost } = await store.ack(held.lease.owner, [held.message], { tx });
        if (lost.length > 0) throw new LeaseLostError();
      },
      { signal },
    );
  } catch (error) {
    held.isAcking = false;
    throw held.isCalled ? error : new NotCalledError(error);
  }
}

/** Rolls a transaction back whose handler does not stop: it must not keep a connection, or SQLite's only writer. */
export function endHandlerTransaction<Message, Tx>({ transaction }: HeldMessage<Message, Tx>): void {
  transaction?.abort(new DOMException("The handler's time was up.", "TimeoutError"));
}
