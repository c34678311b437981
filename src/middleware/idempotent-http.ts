import { defined } from "../base/defined.js";
import { type BodyRefusal, readBody } from "../base/read-body.js";
import { InvalidArgumentError } from "../errors.js";
import { createInbox, type InboxOptions } from "../inbox/inbox.js";
import { optionalCount, refuseUnknown, requireName } from "../queue/arguments.js";
import { commitIfHandled } from "./commit-if-handled.js";
import { parseIdempotencyKey, requestFingerprint, scopedKey } from "./idempotency-key.js";
import { type HttpHandler, idempotentRequests } from "./idempotent-requests.js";
import type { OutboxMiddleware } from "./outbox-middleware.js";
import { problemResponse } from "./problem-response.js";
import { runningRequests } from "./running-requests.js";
import { requireOrder } from "./stages.js";
import type { TransactionMiddleware } from "./transaction-middleware.js";

export interface IdempotentHttpOptions extends Pick<InboxOptions, "schema" | "table" | "clock"> {
  readonly transaction: TransactionMiddleware;
  /** Each subscriber has idempotency keys of its own. */
  readonly subscriber: string;
  /** Where `publish` writes messages. Without it, `publish` throws. */
  readonly outbox?: OutboxMiddleware;
  /**
   * Whose request it is, such as the caller's id. Each scope has keys of its own. With `"all callers"` everybody who sends
   * the same key and the same request gets the same response: only where a response holds nothing of its caller.
   */
  readonly scope: ((request: Request) => string) | "all callers";
  /** Whether a request without the header is refused with 400: true by default. Otherwise it is handled every time. */
  readonly required?: boolean;
  /** Larger bodies are refused with 413: 1 MB by default. */
  readonly maxBodyBytes?: number;
}

const known = [
  "transaction",
  "subscriber",
  "outbox",
  "scope",
  "required",
  "maxBodyBytes",
  "schema",
  "table",
  "clock",
];

/**
 * Makes an HTTP handler safe to call twice, by the Idempotency-Key header (draft-ietf-httpapi-idempotency-key-header).
 * Key, business rows, outgoing messages and response commit together. The same key again gets the same response; with
 * another request 422; while the first request is still being handled 409. A response of 500 or above rolls back and is
 * not stored, so the client may try again.
 *
 * @example
 * const options = { transaction: transaction(db), subscriber: "payments-api", scope: callerOf };
 * const post = idempotentHttp(options, async (request) => {
 *   await currentTransaction()!.query(insertPayment, { payment: await request.text() });
 *   return Response.json({ ok: true }, { status: 201 });
 * });
 */
export function idempotentHttp(options: IdempotentHttpOptions, handler: HttpHandler): HttpHandler {
  requireOptions(options, handler);
  const { transaction, scope, required = true, maxBodyBytes = 1_048_576, schema, table, clock } = options;
  const requests = idempotentRequests({
    dialect: transaction.db.dialect,
    inbox: createInbox(transaction.db, defined({ schema, table, clock })),
    subscriber: options.subscriber,
    outbox: options.outbox,
    handler,
  });
  const running = runningRequests();
  const keyOf = (request: Request, given: string): string =>
    scope === "all callers" ? given : scopedKey(scope(request), given);

  return async (request) => {
    const header = request.headers.get("idempotency-key");
    const given = parseIdempotencyKey(header);
    if (given === undefined && (header !== null || required))
      return problemResponse(
        400,
        "This request needs an Idempotency-Key header: a text in quotes, of 1 to 255 characters.",
      );
    const key = given === undefined ? undefined : keyOf(request, given);
    const body = await readBody(request, { maxBytes: maxBodyBytes, withinMs: bodyMs });
    if (typeof body === "string") return unreadBody(body, maxBodyBytes);
    // With the bytes instead of the stream, of which nothing is left.
    const whole = request.body === null ? request : new Request(request, { body });
    if (key === undefined) return (await commitIfHandled(transaction, () => requests.handle(whole))).result;
    const hash = requestFingerprint(request, body);
    const once = (starting: () => void) =>
      commitIfHandled(transaction, () => requests.handleOnce(whole, key, hash, starting));
    const outcome = await running.join(key, once);
    if ("result" in outcome) return outcome.result;
    // A parallel request that only reads a stored response holds the lock too, so a locked key may be known.
    const stored = outcome.kind === "running" ? undefined : await requests.storedResponse(key, hash);
    return stored ?? stillRunning();
  };
}

function requireOptions(options: IdempotentHttpOptions, handler: HttpHandler): void {
  refuseUnknown(options ?? {}, known, "idempotentHttp");
  const { transaction, subscriber, scope, maxBodyBytes } = options;
  requireOrder(transaction === undefined ? ["inbox"] : [transaction.stage, "inbox"]);
  requireName(subscriber, "idempotentHttp: subscriber");
  optionalCount(maxBodyBytes, "idempotentHttp: maxBodyBytes", 1);
  if (typeof handler !== "function")
    throw new InvalidArgumentError("idempotentHttp: the second argument must be the handler.");
  if (scope !== "all callers" && typeof scope !== "function")
    throw new InvalidArgumentError(
      "idempotentHttp: scope must be a function (request) => text that says whose request it is, such as the caller's id. Where all callers may see each other's responses, write scope: \"all callers\".",
    );
}

/** The time that a body may take. */
const bodyMs = 30_000;

function unreadBody(why: BodyRefusal, maxBytes: number): Response {
  if (why === "too large")
    return problemResponse(413, `The body of a request may have ${maxBytes} bytes at most.`);
  return why === "too slow"
    ? problemResponse(408, `The body of a request may take ${bodyMs / 1_000} s at most.`)
    : problemResponse(400, "The body of the request could not be read.");
}

const stillRunning = (): Response =>
  problemResponse(409, "A request with this Idempotency-Key is still being handled. Try again later.");
