import { safeReason } from "../base/safe-reason.js";
import { InvalidOperationError } from "../errors.js";
import { LeaseLostError } from "../queue/lease-lost-error.js";
import type { QueueMessage } from "../queue/message.js";
import type { BeginHandlerTransaction, BeginOptions, RanInTransaction } from "./begin-transaction.js";
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
  const { store, config } = run;
  held.transaction = new AbortController();
  const { signal } = held.transaction;
  const handleAndAck = async (tx: Tx, own: Tx): Promise<void> => {
    signal.throwIfAborted(); // the run has given it up while it waited for its transaction
    held.isCalled = true;
    held.isAcking = false;
    // It may have waited for its transaction longer than its lease, in a process that was frozen meanwhile.
    if (performance.now() >= held.lease.expiresAt) throw new LeaseLostError();
    await work(own);
    held.isAcking = true;
    renewApart(run, [held]);
    const { lost } = await store.ack(held.lease.owner, [held.message], { tx });
    if (lost.length > 0) throw new LeaseLostError();
  };
  try {
    if (config.begin === undefined) await store.transaction((tx) => handleAndAck(tx, tx), { signal });
    else await inOwnTransaction(config.begin, handleAndAck, { signal, store: store.id });
  } catch (error) {
    held.isAcking = false;
    throw held.isCalled ? error : new NotCalledError(error);
  }
}

/**
 * A transaction of the user's library cannot be rolled back from outside while its handler uses it: with some libraries, what
 * the handler does next would be committed by itself. So it ends when its handler does, and a handler that was given up cannot commit.
 */
async function inOwnTransaction<Tx>(
  begin: BeginHandlerTransaction<Tx, Tx>,
  work: (tx: Tx, own: Tx) => Promise<void>,
  options: BeginOptions,
): Promise<void> {
  let ran: object | undefined;
  let failure: { readonly error: unknown } | undefined;
  const returned: unknown = await begin(async <Own>(tx: Tx, own: Own) => {
    ran = undefined;
    failure = undefined;
    try {
      await work(tx, own as unknown as Tx);
    } catch (error) {
      failure = { error };
      throw error;
    }
    ran = {};
    return ran as RanInTransaction<Own>;
  }, options);
  if (failure !== undefined) throw failure.error;
  if (ran === undefined || returned !== ran)
    throw new InvalidOperationError(
      "createDispatcher: transaction must wait for work(tx, own) and return what it resolves to.",
    );
}

/** Rolls a transaction back whose handler does not stop: it must not keep a connection, or SQLite's only writer. */
export function endHandlerTransaction<Message, Tx>({ transaction }: HeldMessage<Message, Tx>): void {
  transaction?.abort(new DOMException("The handler's time was up.", "TimeoutError"));
}
