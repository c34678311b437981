import { createHash } from "node:crypto";
import { omitUndefined } from "../base/defined.js";
import { InvalidArgumentError } from "../errors.js";
import { type BodyRefusal, readBody } from "../http/body.js";
import { problemResponse } from "../http/plain.js";
import { createInbox, type InboxOptions } from "../inbox/inbox.js";
import { optionalCount, refuseUnknown, requireName } from "../queue/arguments.js";
import { requireOrder } from "./compose.js";
import { handleOnce, runningCalls, storedUnder } from "./handle-once.js";
import type { OutboxMiddleware } from "./inbox-outbox.js";
import { commitIfHandled, requireScope, type TransactionMiddleware } from "./transaction.js";

/** A function that responds to a request. */
export type HttpHandler = (request: Request) => Response | Promise<Response>;

/** Options of idempotent HTTP. */
export interface IdempotentHttpOptions extends Pick<InboxOptions, "schema" | "table" | "clock" | "logger"> {
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
  "logger",
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
  const { transaction, subscriber, outbox, scope, required = true, maxBodyBytes = 1_048_576 } = options;
  const { schema, table, clock, logger } = options;
  const { dialect } = transaction.db;
  const inbox = createInbox(transaction.db, omitUndefined({ schema, table, clock, logger }));
  const join = runningCalls();

  const handle = async (request: Request) => {
    const open = requireScope("outbox");
    outbox?.collect(open);
    const result = await handler(request);
    if (result.status >= 500) return { kind: "failed", result } as const;
    await outbox?.write(open, undefined);
    return { kind: "handled", result } as const;
  };
  const handleAndStore = async (request: Request) => {
    const { kind, result } = await handle(request);
    if (kind === "failed") return { result, stored: undefined };
    const stored = await toStoredResponse(result);
    const response = fromStoredResponse(stored);
    for (const cookie of result.headers.getSetCookie()) response.headers.append("set-cookie", cookie);
    return { result: response, stored: JSON.stringify(stored) };
  };

  return async (request) => {
    const header = request.headers.get("idempotency-key");
    const given = parseIdempotencyKey(header);
    if (given === undefined && (header !== null || required))
      return problemResponse(
        400,
        "This request needs an Idempotency-Key header: a text in quotes, of 1 to 255 characters.",
      );
    const messageId = given === undefined ? undefined : keyOf(scope, request, given);
    const body = await readBody(request, { maxBytes: maxBodyBytes, withinMs: bodyMs });
    if (typeof body === "string") return unreadBody(body, maxBodyBytes);
    // With the bytes instead of the stream, of which nothing is left.
    const whole = request.body === null ? request : new Request(request, { body });
    if (messageId === undefined) return (await commitIfHandled(transaction, () => handle(whole))).result;
    const key = { source: subscriber, messageId };
    const hash = requestFingerprint(request, body);
    const outcome = await join(messageId, (starting) =>
      commitIfHandled(transaction, () =>
        handleOnce(
          { dialect, inbox, tx: requireScope("inbox").tx },
          { key, hash, topic: "http", starting, handle: () => handleAndStore(whole) },
        ),
      ),
    );
    if ("result" in outcome) return outcome.result;
    // A parallel request that only reads a stored response holds the lock too, so a locked key may be known.
    const found = outcome.kind === "running" ? undefined : await storedUnder(inbox, key);
    if (found === undefined)
      return problemResponse(
        409,
        "A request with this Idempotency-Key is still being handled. Try again later.",
      );
    if (found.hash !== hash)
      return problemResponse(422, "This Idempotency-Key was used with another request.");
    return fromStoredResponse(JSON.parse(found.payload) as StoredResponse);
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

/**
 * The key in an Idempotency-Key header, or undefined when it is missing or malformed. The draft wants a string in
 * quotes; many clients send it without them, so both are accepted.
 */
function parseIdempotencyKey(header: string | null): string | undefined {
  const text = header?.trim() ?? "";
  const quoted = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/.exec(text);
  const key = quoted ? quoted[1]!.replace(/\\(["\\])/g, "$1") : text;
  const isUsable =
    /^[\x20-\x7e]{1,255}$/.test(key) && !key.endsWith(" ") && (quoted !== null || !key.includes('"'));
  return isUsable ? key : undefined;
}

/** Scope and key as one key of fixed length: both together may be longer than the column. */
function keyOf(scope: IdempotentHttpOptions["scope"], request: Request, given: string): string {
  if (scope === "all callers") return given;
  const owner = scope(request);
  if (typeof owner !== "string" || owner === "")
    throw new InvalidArgumentError(
      "idempotentHttp: scope must return a text that says whose request it is, such as the caller's id.",
    );
  return createHash("sha256")
    .update(JSON.stringify([owner, given]))
    .digest("hex");
}

/** Two requests are the same request when method, path, query and body are equal. */
function requestFingerprint(request: Request, body: Uint8Array): string {
  const { pathname, search } = new URL(request.url);
  const hash = createHash("sha256")
    .update(JSON.stringify([request.method, pathname, search]))
    .update(body);
  return `sha256:${hash.digest("hex")}`;
}

/** A response as the inbox stores it, in JSON. */
interface StoredResponse {
  readonly status: number;
  readonly headers: [string, string][];
  /** In base64. */
  readonly body: string;
}

const statusesWithoutBody: readonly number[] = [101, 204, 205, 304];

/** Without cookies: they belong to the one request that they were made for. */
async function toStoredResponse(response: Response): Promise<StoredResponse> {
  const body = Buffer.from(await response.arrayBuffer()).toString("base64");
  const headers = [...response.headers].filter(([name]) => name !== "set-cookie");
  return { status: response.status, headers, body };
}

function fromStoredResponse({ status, headers, body }: StoredResponse): Response {
  const bytes = Buffer.from(body, "base64");
  const hasBody = bytes.byteLength > 0 && !statusesWithoutBody.includes(status);
  return new Response(hasBody ? bytes : null, { status, headers });
}
