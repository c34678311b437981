import type { Inbox } from "../inbox/inbox.js";
import type { Dialect } from "../sql/dialect.js";
import { requireScope } from "./current-transaction.js";
import { handleOnce, type OnceOutcome, storedUnder } from "./handle-once.js";
import type { OutboxMiddleware } from "./outbox-middleware.js";
import { problemResponse } from "./problem-response.js";
import { fromStoredResponse, type StoredResponse, toStoredResponse } from "./stored-response.js";

export type HttpHandler = (request: Request) => Response | Promise<Response>;

interface AnsweredRequest {
  readonly kind: "handled" | "failed";
  readonly result: Response;
}

export interface IdempotentRequests {
  /** Handles a request without a key. */
  handle(request: Request): Promise<AnsweredRequest>;
  /**
   * Handles a request unless its key is locked or known, and stores the response under the key. Calls `starting` before
   * the handler.
   */
  handleOnce(
    request: Request,
    key: string,
    hash: Uint8Array,
    starting: () => void,
  ): Promise<OnceOutcome<Response>>;
  /** The response for a key whose request was handled and committed; 422 when the key belongs to another request. */
  storedResponse(key: string, hash: Uint8Array): Promise<Response | undefined>;
}

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
    const result = await handler(request);
    if (result.status >= 500) return { kind: "failed", result };
    await outbox?.write(scope, undefined);
    return { kind: "handled", result };
  };

  return {
    handle,

    async handleOnce(request, messageId, hash, starting) {
      const { tx } = requireScope("inbox");
      return handleOnce(
        { dialect, inbox, tx },
        {
          key: { source: subscriber, messageId },
          hash,
          topic: "http",
          starting,
          async handle() {
            const { kind, result } = await handle(request);
            if (kind === "failed") return { result, stored: undefined };
            const stored = await toStoredResponse(result);
            const response = fromStoredResponse(stored);
            for (const cookie of result.headers.getSetCookie()) response.headers.append("set-cookie", cookie);
            return { result: response, stored: JSON.stringify(stored) };
          },
        },
      );
    },

    async storedResponse(messageId, hash) {
      const found = await storedUnder(inbox, { source: subscriber, messageId });
      if (found === undefined) return undefined;
      if (found.hash === null || Buffer.compare(found.hash, hash) !== 0)
        return problemResponse(422, "This Idempotency-Key was used with another request.");
      return fromStoredResponse(JSON.parse(found.payload) as StoredResponse);
    },
  };
}
