import type { Inbox } from "../inbox/inbox.js";
import type { InboxKey, InboxMessage } from "../queue/message.js";
import type { Dialect } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";
import { takeIdempotencyLock } from "./idempotency-lock.js";

/** What became of one call under a key. Only `handled` commits. */
export type OnceOutcome<Result> =
  | { readonly kind: "handled" | "failed"; readonly result: Result }
  /** Another transaction is handling a call with the same key. */
  | { readonly kind: "locked" }
  /** A call with the same key has been handled before. */
  | { readonly kind: "known" };

export interface OnceCall<Result> {
  readonly key: InboxKey;
  readonly hash?: Uint8Array;
  /** The topic of the inbox message that the result is stored in. */
  readonly topic: string;
  /** Called before `handle`. */
  readonly starting: () => void;
  /** `stored` is the text to keep under the key. Without one the call has failed. */
  readonly handle: () => Promise<{ readonly result: Result; readonly stored: string | undefined }>;
}

/** Handles a call in the transaction `tx` unless its key is locked or known, and stores the result under the key. */
export async function handleOnce<Result>(
  { dialect, inbox, tx }: { readonly dialect: Dialect; readonly inbox: Inbox; readonly tx: SqlExecutor },
  { key, hash, topic, starting, handle }: OnceCall<Result>,
): Promise<OnceOutcome<Result>> {
  if (!(await takeIdempotencyLock(dialect, tx, key.source, key.messageId))) return { kind: "locked" };
  if (await inbox.alreadyProcessed(key, hash, { tx })) return { kind: "known" };
  starting();
  const { result, stored } = await handle();
  if (stored === undefined) return { kind: "failed", result };
  await inbox.receive({ ...key, topic, payload: stored, hash }, { tx });
  await inbox.markProcessed(key, { tx });
  return { kind: "handled", result };
}

/**
 * SQL Server without row versions makes a reader wait for a row that a running call has written. A result that cannot be
 * read within this time belongs to such a call.
 */
const readMs = 2_000;

/** The message under a key whose call was handled and committed. */
export async function storedUnder(inbox: Inbox, key: InboxKey): Promise<InboxMessage | undefined> {
  const signal = AbortSignal.timeout(readMs);
  const found = await inbox.get(key, { signal, committed: true }).catch((error: unknown) => {
    if (signal.aborted) return null;
    throw error;
  });
  return found?.state === "Done" ? found : undefined;
}
