import { createHash } from "node:crypto";
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

/**
 * Takes the lock of an idempotency key in the transaction `tx`, without waiting. Returns false when another transaction
 * holds it. Where the dialect has no such lock, the result is always true.
 */
async function takeIdempotencyLock(
  { idempotencyLock }: Dialect,
  tx: SqlExecutor,
  subscriber: string,
  key: string,
): Promise<boolean> {
  if (idempotencyLock === undefined) return true;
  const [row] = await tx.query(idempotencyLock, { name: lockName(subscriber, key) });
  return isTrue(row?.locked);
}

/** A hash: a lock's name has 255 characters at most in SQL Server, fewer than a subscriber and a key together. */
const lockName = (subscriber: string, key: string): string =>
  `oncebox:${createHash("sha256")
    .update(JSON.stringify([subscriber, key]))
    .digest("hex")}`;

/** A call with the same key runs in this process, and its handler was started. `ended` resolves when it has ended. */
interface RunningElsewhere {
  readonly kind: "running";
  readonly ended: Promise<unknown>;
}

interface RunningRequests {
  /**
   * Runs `once` unless a call with the same key runs in this process: `running` when that call's handler was started,
   * `known` when that call found a stored result. `once` calls `starting` before its handler.
   */
  join<Outcome extends { readonly kind: string }>(
    key: string,
    once: (starting: () => void) => Promise<Outcome>,
  ): Promise<Outcome | RunningElsewhere | { readonly kind: "known" }>;
}

/** What a call came to: its handler was started, it found a stored result, or neither. */
type Course = "started" | "known" | "ended";

interface RunningCall {
  readonly course: Promise<Course>;
  readonly ended: Promise<void>;
}

/** The calls of this process by their keys. A second call waits only until the first one's course is clear. */
export function runningRequests(): RunningRequests {
  const running = new Map<string, RunningCall>();
  return {
    async join<Outcome extends { readonly kind: string }>(
      key: string,
      once: (starting: () => void) => Promise<Outcome>,
    ) {
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
    },
  };
}
