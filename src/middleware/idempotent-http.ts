import { createHash } from "node:crypto";
import { InvalidArgumentError } from "../errors.js";
import { createInbox, type InboxOptions } from "../inbox/inbox.js";
import { optionalCount, refuseUnknown, requireName } from "../queue/arguments.js";
import { isTrue } from "../sql/is-true.js";
import { requireOrder } from "./compose.js";
import { idempotencyLock } from "./idempotency-lock.js";
import { requireScope } from "./inbox-middleware.js";
import type { OutboxMiddleware } from "./outbox-middleware.js";
import type { TransactionMiddleware } from "./transaction-middleware.js";

export interface IdempotentHttpOptions extends Pick<InboxOptions, "schema" | "table" | "clock"> {
  readonly transaction: TransactionMiddleware;
  /** Keys are this subscriber's own. */
  readonly subscriber: string;
  /** Where `publish` puts messages; without one it is refused. */
  readonly outbox?: OutboxMiddleware;
  /**
   * Whose request it is, such as the caller's id: each has keys of its own. Without it, whoever sends the same key and
   * the same request gets the same response.
   */
  readonly scope?: (request: Request) => string;
  /** Whether a request without the header is refused with 400: true by default. Otherwise it is handled every time. */
  readonly required?: boolean;
  /** Bodies that are larger are refused with 413: 1 MB by default. */
  readonly maxBodyBytes?: number;
}

export type HttpHandler = (request: Request) => Response | Promise<Response>;

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

interface StoredResponse {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  /** In base64. */
  readonly body: string;
}

/**
 * Makes an HTTP handler safe to call twice, by the Idempotency-Key header (draft-ietf-httpapi-idempotency-key-header).
 * Key, business rows, outgoing messages and response commit together. The same key again is answered with that
 * response; with another request, 422; while the first one is still being handled, 409. A response of 500 and above
 * rolls back and is not kept, so that the client may try again.
 *
 * @example
 * const post = idempotentHttp({ transaction: transaction(db), subscriber: "payments-api" }, async (request) => {
 *   await currentTransaction()!.query(insertPayment, await request.json());
 *   return Response.json({ ok: true }, { status: 201 });
 * });
 */
export function idempotentHttp(options: IdempotentHttpOptions, handler: HttpHandler): HttpHandler {
  refuseUnknown(options ?? {}, known, "idempotentHttp");
  const {
    transaction,
    subscriber,
    outbox,
    scope: scopeOf,
    required = true,
    maxBodyBytes = 1_048_576,
  } = options;
  requireOrder([...(transaction === undefined ? [] : [transaction.stage]), "inbox"]);
  requireName(subscriber, "idempotentHttp: subscriber");
  optionalCount(maxBodyBytes, "idempotentHttp: maxBodyBytes", 1);
  if (typeof handler !== "function") throw new InvalidArgumentError("idempotentHttp takes the handler last.");
  if (scopeOf !== undefined && typeof scopeOf !== "function")
    throw new InvalidArgumentError("idempotentHttp: scope must be a function (request) => text.");
  const { schema, table, clock } = options;
  const { db } = transaction;
  const inbox = createInbox(db, {
    ...(schema === undefined ? {} : { schema }),
    ...(table === undefined ? {} : { table }),
    ...(clock === undefined ? {} : { clock }),
  });
  const lock = idempotencyLock(db.dialect.name);
  const running = new Set<string>();

  /** Once for each request, in the transaction that is open. */
  const handle = async (request: Request): Promise<Answered> => {
    const scope = requireScope("outbox");
    outbox?.collect(scope);
    const response = await handler(request);
    if (response.status >= 500) return { kind: "failed", response };
    await outbox?.write(scope, undefined);
    return { kind: "handled", response };
  };

  const handleNew = async (request: Request, messageId: string, hash: Uint8Array): Promise<Outcome> => {
    const { tx } = requireScope("inbox");
    const key = { source: subscriber, messageId };
    if (!isTrue(await lock(tx, JSON.stringify([subscriber, messageId])))) return { kind: "twin" };
    if (await inbox.alreadyProcessed(key, hash, { tx })) return { kind: "known" };
    const outcome = await handle(request);
    if (outcome.kind === "failed") return outcome;
    const stored = await toStored(outcome.response);
    await inbox.receive({ ...key, topic: "http", payload: JSON.stringify(stored), hash }, { tx });
    await inbox.markProcessed(key, { tx });
    return { kind: "handled", response: fromStored(stored) };
  };

  /** Only what was handled commits: anything else has changed nothing. */
  const inTransaction = async <Of extends Outcome>(work: () => Promise<Of>): Promise<Of> => {
    let outcome: Of | undefined;
    try {
      await transaction.run(undefined, async () => {
        outcome = await work();
        if (outcome.kind !== "handled") throw notHandled;
      });
    } catch (error) {
      if (error !== notHandled) throw error;
    }
    return outcome!;
  };

  const answerAgain = async (messageId: string, hash: Uint8Array): Promise<Response> => {
    const found = await inbox.get({ source: subscriber, messageId });
    if (found === null)
      return problem(409, "The first request with this Idempotency-Key has just been forgotten. Try again.");
    if (found.hash === null || Buffer.compare(found.hash, hash) !== 0) {
      return problem(422, "This Idempotency-Key was used with another request.");
    }
    return fromStored(JSON.parse(found.payload) as StoredResponse);
  };

  return async (request) => {
    const header = request.headers.get("idempotency-key");
    if (header === null && !required) return (await inTransaction(() => handle(request))).response;
    const given = keyOf(header);
    if (given === undefined)
      return problem(
        400,
        "This request needs an Idempotency-Key header: a text in quotes, of 1 to 255 characters.",
      );
    const messageId = scopeOf === undefined ? given : scoped(scopeOf(request), given);
    const body = new Uint8Array(await request.clone().arrayBuffer());
    if (body.byteLength > maxBodyBytes) return problem(413, "The request is too large.");
    if (running.has(messageId)) return twin();
    running.add(messageId);
    try {
      const hash = fingerprint(request, body);
      const outcome = await inTransaction(() => handleNew(request, messageId, hash));
      if (outcome.kind === "twin") return twin();
      return outcome.kind === "known" ? await answerAgain(messageId, hash) : outcome.response;
    } finally {
      running.delete(messageId);
    }
  };
}

type Answered = { readonly kind: "handled" | "failed"; readonly response: Response };
type Outcome = { readonly kind: "twin" } | { readonly kind: "known" } | Answered;

/** As long as a key may be, whatever the scope: they are stored together. */
function scoped(scope: unknown, key: string): string {
  if (typeof scope !== "string" || scope === "")
    throw new InvalidArgumentError("idempotentHttp: scope must answer a text that says whose request it is.");
  return createHash("sha256")
    .update(JSON.stringify([scope, key]))
    .digest("hex");
}

/** Thrown into the transaction to roll it back; nobody else sees it. */
const notHandled = new Error("rolled back");

/** A structured header's string; unquoted keys are common enough to be taken too. */
function keyOf(header: string | null): string | undefined {
  const quoted = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/.exec(header?.trim() ?? "");
  const key = quoted ? quoted[1]!.replace(/\\(["\\])/g, "$1") : (header?.trim() ?? "");
  const isUsable =
    /^[\x20-\x7e]{1,255}$/.test(key) && !key.endsWith(" ") && (quoted !== null || !key.includes('"'));
  return isUsable ? key : undefined;
}

/** What makes two requests the same one: method, path, query and body. */
function fingerprint(request: Request, body: Uint8Array): Uint8Array {
  const { pathname, search } = new URL(request.url);
  return createHash("sha256")
    .update(JSON.stringify([request.method, pathname, search]))
    .update(body)
    .digest();
}

const problem = (status: number, title: string): Response =>
  Response.json({ title, status }, { status, headers: { "content-type": "application/problem+json" } });

const twin = (): Response =>
  problem(409, "A request with this Idempotency-Key is still being handled. Try again later.");

async function toStored(response: Response): Promise<StoredResponse> {
  const body = Buffer.from(await response.arrayBuffer()).toString("base64");
  return { status: response.status, headers: [...response.headers], body };
}

function fromStored({ status, headers, body }: StoredResponse): Response {
  const bytes = Buffer.from(body, "base64");
  const hasBody = bytes.byteLength > 0 && ![101, 204, 205, 304].includes(status);
  return new Response(hasBody ? bytes : null, {
    status,
    headers: headers.map(([name, value]): [string, string] => [name, value]),
  });
}
