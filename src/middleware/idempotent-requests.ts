import type { Inbox } from "../inbox/inbox.js";
import type { Dialect } from "../sql/dialect.js";
import { requireScope } from "./current-transaction.js";
import { takeIdempotencyLock } from "./idempotency-lock.js";
import type { OutboxMiddleware } from "./outbox-middleware.js";
import { problemResponse } from "./problem-response.js";
import { fromStoredResponse, type StoredResponse, toStoredResponse } from "./stored-response.js";

export type HttpHandler = (request: Request) => Response | Promise<Response>;

interface AnsweredRequest {
  readonly kind: "handled" | "failed";
  readonly response: Response;
}

/** What became of one request. Only `handled` commits. */
export type RequestOutcome =
  | AnsweredRequest
  /** Another transaction is handling a request with the same key. */
  | { readonly kind: "locked" }
  /** A request with the same key has been handled before. */
  | { readonly kind: "known" };

export interface IdempotentRequests {
  /** Handles a request without a key. */
  handle(request: Request): Promise<AnsweredRequest>;
  /**
   * Handles a request unless its key is locked or known, and stores the response under the key. Calls `starting` before
   * the handler.
   */
  handleOnce(request: Request, key: string, hash: Uint8Array, starting: () => void): Promise<RequestOutcome>;
  /** The response for a key whose request was handled and committed; 422 when the key belongs to another request. */
  storedResponse(key: string, hash: Uint8Array): Promise<Response | undefined>;
}

/**
 * SQL Server without row versions makes a reader wait for a row that a running request has written. A response that
 * cannot be read within this time belongs to such a request.
 */
const readMs = 2_000;

/** Handles requests in the transaction that is open, and keeps their responses in the inbox. */
export function idempotentRequests(options: {
  readonly dialect: Dialect;
  readonly inbox: Inbox;
  readonly subscriber: string;
  readonly outbox: OutboxMiddleware | undefined;
  readonly handler: HttpHandler;
}): IdempotentRequests {
  const { dialect, inbox, subscriber, outbox, handler } = options;

  const handle = async (request: Request): Promise<AnsweredRequest> => {
    const scope = requireScope("outbox");
    outbox?.collect(scope);
    const response = await handler(request);
    if (response.status >= 500) return { kind: "failed", response };
    await outbox?.write(scope, undefined);
    return { kind: "handled", response };
  };

  return {
    handle,

    async handleOnce(request, messageId, hash, starting) {
      const { tx } = requireScope("inbox");
      const key = { source: subscriber, messageId };
      if (!(await takeIdempotencyLock(dialect, tx, subscriber, messageId))) return { kind: "locked" };
      if (await inbox.alreadyProcessed(key, hash, { tx })) return { kind: "known" };
      starting();
      const outcome = await handle(request);
      if (outcome.kind === "failed") return outcome;
      const stored = await toStoredResponse(outcome.response);
      await inbox.receive({ ...key, topic: "http", payload: JSON.stringify(stored), hash }, { tx });
      await inbox.markProcessed(key, { tx });
      return { kind: "handled", response: fromStoredResponse(stored) };
    },

    async storedResponse(messageId, hash) {
      const signal = AbortSignal.timeout(readMs);
      const found = await inbox.get({ source: subscriber, messageId }, { signal }).catch((error: unknown) => {
        if (signal.aborted) return null;
        throw error;
      });
      if (found?.state !== "Done") return undefined;
      if (found.hash === null || Buffer.compare(found.hash, hash) !== 0)
        return problemResponse(422, "This Idempotency-Key was used with another request.");
      return fromStoredResponse(JSON.parse(found.payload) as StoredResponse);
    },
  };
}
