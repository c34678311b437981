import { createHash } from "node:crypto";
import { RowLockedError } from "../errors.js";
import type { Inbox } from "../inbox/inbox.js";
import type { InboxKey, InboxMessage } from "../queue/message.js";
import type { Dialect } from "../sql/dialect.js";
import { isTrue, type SqlExecutor } from "../sql/driver.js";

/** What became of one call under a key. Only `handled` commits. */
export type OnceOutcome<Result> =
  | { readonly kind: "handled" | "failed"; readonly result: Result }
  /** Another transaction is handling a call with the same key. */
  | { readonly kind: "locked" }
  /** A call with the same key has been handled before. */
  | { readonly kind: "known" };

interface OnceCall<Result> {
  readonly key: InboxKey;
  readonly hash?: string;
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
  if (!(await takeLock(dialect, tx, key))) return { kind: "locked" };
  if (await inbox.alreadyProcessed(key, hash, { tx })) return { kind: "known" };
  starting();
  const { result, stored } = await handle();
  if (stored === undefined) return { kind: "failed", result };
  await inbox.receive({ ...key, topic, payload: stored, hash }, { tx });
  await inbox.markProcessed(key, { tx });
  return { kind: "handled", result };
}

/** Takes the lock of a key in the transaction `tx`, without waiting. Returns whether it is ours, as it is without locks. */
async function takeLock({ idempotencyLock }: Dialect, tx: SqlExecutor, key: InboxKey): Promise<boolean> {
  if (idempotencyLock === undefined) return true;
  const [row] = await tx.query(idempotencyLock, { name: lockName(key) });
  return isTrue(row?.locked);
}

/** A hash: a lock's name has 255 characters at most in SQL Server, fewer than a source and an id together. */
function lockName({ source, messageId }: InboxKey): string {
  const hash = createHash("sha256").update(JSON.stringify([source, messageId]));
  return `oncebox:${hash.digest("hex")}`;
}

/** The message under a key whose call was handled and committed. A row that is locked belongs to a call that still runs. */
export async function storedUnder(inbox: Inbox, key: InboxKey): Promise<InboxMessage | undefined> {
  const found = await inbox.get(key).catch((error: unknown) => {
    if (error instanceof RowLockedError) return null;
    throw error;
  });
  return found?.state === "Done" ? found : undefined;
}

/** What a call came to: its handler was started, it found a stored result, or neither. */
type Course = "started" | "known" | "ended";

/**
 * The calls of this process by their keys. The returned function runs `once` unless a call with the same key runs: then it
 * waits only until that call's course is clear. `running` says that its handler was started, `known` that it found a stored
 * result. `once` calls `starting` before its handler.
 */
export function runningCalls() {
  const running = new Map<string, { readonly course: Promise<Course>; readonly ended: Promise<void> }>();
  return async <Outcome extends { readonly kind: string }>(
    key: string,
    once: (starting: () => void) => Promise<Outcome>,
  ) => {
    for (let first = running.get(key); first !== undefined; first = running.get(key)) {
      const course = await first.course;
      if (course === "started") return { kind: "running", ended: first.ended } as const;
      if (course === "known") return { kind: "known" } as const;
    }
    let clear = (_: Course): void => {};
    let end = (): void => {};
    const course = new Promise<Course>((resolve) => {
      clear = resolve;
    });
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    running.set(key, { course, ended });
    let kind: string | undefined;
    try {
      const outcome = await once(() => clear("started"));
      kind = outcome.kind;
      return outcome;
    } finally {
      running.delete(key);
      clear(kind === "known" ? "known" : "ended"); // does nothing after "started"
      end();
    }
  };
}
