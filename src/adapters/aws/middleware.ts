import { isUtf8 } from "node:buffer";
import type { MiddlewareObj, Request as MiddyRequest } from "@middy/core";
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { InvalidArgumentError, InvalidOperationError } from "../../errors.js";
import { problemResponse } from "../../http/plain.js";
import { requireOrder, type Stage } from "../../middleware/compose.js";
import type { HttpHandler } from "../../middleware/idempotent-http.js";
import {
  type InboxMiddlewareOptions,
  inbox as neutralInbox,
  outbox as neutralOutbox,
  type OutboxMiddlewareOptions,
} from "../../middleware/inbox-outbox.js";
import {
  ambient,
  transaction as neutralTransaction,
  type OpenTransaction,
  type TransactionOptions,
  type TransactionScope,
} from "../../middleware/transaction.js";
import type { Database } from "../../sql/dialect.js";
import { readHttpEvent } from "./events.js";
import { sqsMessage } from "./sqs.js";

/**
 * Turns a handler of web requests, such as `idempotentHttp`'s, into a Lambda function behind an HTTP API (payload format
 * 2.0) or a function URL.
 *
 * @example
 * export const handler = lambdaHttp(idempotentHttp({ transaction: transaction(db), subscriber: "api", scope }, placeOrder));
 */
export function lambdaHttp(
  handler: HttpHandler,
): (event: APIGatewayProxyEventV2) => Promise<APIGatewayProxyStructuredResultV2> {
  if (typeof handler !== "function")
    throw new InvalidArgumentError("lambdaHttp: the handler must be a function (request) => response.");
  return async (event) => {
    const request = webRequestFromEvent(event);
    return resultFromResponse(request === undefined ? unusableRequest() : await handler(request));
  };
}

/** Returns undefined when a Request cannot have the method or a header, such as TRACE or a value beyond Latin-1. */
function webRequestFromEvent(event: APIGatewayProxyEventV2): Request | undefined {
  const { method, url, body } = readHttpEvent(event, "lambdaHttp");
  const mayHaveBody = method !== "GET" && method !== "HEAD";
  try {
    const headers = new Headers();
    for (const [name, value] of Object.entries(event.headers))
      if (value !== undefined) headers.set(name, value);
    if (event.cookies !== undefined) headers.set("cookie", event.cookies.join("; "));
    return new Request(url, {
      method,
      headers,
      body: mayHaveBody && body !== null ? new Uint8Array(body) : null,
    });
  } catch {
    return undefined;
  }
}

const unusableRequest = (): Response =>
  problemResponse(400, "The request has a method or a header that this function cannot take.");

async function resultFromResponse(response: Response): Promise<APIGatewayProxyStructuredResultV2> {
  const bytes = Buffer.from(await response.arrayBuffer());
  const cookies = response.headers.getSetCookie();
  const type = response.headers.get("content-type") ?? "text/plain";
  const isText = /^(text\/|application\/([\w.-]+\+)?(json|xml)\b)/i.test(type) && isUtf8(bytes);
  return {
    statusCode: response.status,
    headers: Object.fromEntries([...response.headers].filter(([name]) => name !== "set-cookie")),
    ...(cookies.length === 0 ? {} : { cookies }),
    body: bytes.toString(isText ? "utf8" : "base64"),
    isBase64Encoded: !isText,
  };
}

/** State of one invocation, under one key of `request.internal`. */
interface Invocation {
  readonly open: OpenTransaction;
  readonly stages: Stage[];
}

const key = "oncebox";

type Internal = { [key]?: Invocation };
type MiddyMiddleware = MiddlewareObj & { readonly stage: Stage };

const invocationOf = (request: MiddyRequest): Invocation | undefined => (request.internal as Internal)[key];

/** Throws at the first invocation when the order is wrong. `orderedMiddleware([...])` throws when the function loads. */
function enter(request: MiddyRequest, stage: "inbox" | "outbox"): Invocation {
  const invocation = invocationOf(request);
  if (invocation === undefined) {
    throw new InvalidOperationError(
      `${stage}: there is no transaction around it. Add .use(transaction(db)) before .use(${stage}(…)).`,
    );
  }
  requireOrder([...invocation.stages, stage]);
  invocation.stages.push(stage);
  return invocation;
}

/**
 * Begins a transaction before the handler, commits after it, rolls back on any error.
 *
 * @example
 * export const handler = middy(work).use(transaction(db)).use(inbox({ subscriber: "orders" })).use(outbox());
 */
export function transaction(db: Database, options?: TransactionOptions): MiddyMiddleware {
  const neutral = neutralTransaction(db, options);
  const end = async (request: MiddyRequest, how: "commit" | "rollback"): Promise<void> => {
    const invocation = invocationOf(request);
    if (invocation === undefined) return;
    delete (request.internal as Internal)[key];
    await invocation.open[how]();
  };
  return {
    stage: "transaction",
    before: async function transactionBefore(request) {
      const open = await neutral.open();
      (request.internal as Internal)[key] = { open, stages: ["transaction"] };
      enterWithEvent(request, open.scope);
      watchForEarlyEnd(request);
    },
    after: async function transactionAfter(request) {
      await end(request, "commit");
    },
    onError: async function transactionOnError(request) {
      await end(request, "rollback");
    },
  };
}

/**
 * An async context that a `before` hook enters ends with the hook, unless it is the first hook. So the transaction's
 * context is entered when middy reads the event from the request, which it does in the call of the handler.
 */
function enterWithEvent(request: MiddyRequest, scope: TransactionScope): void {
  let { event } = request;
  Object.defineProperty(request, "event", {
    configurable: true,
    enumerable: true,
    get() {
      if (scope.open) ambient.enterWith(scope);
      return event;
    },
    set(value) {
      event = value;
    },
  });
}

/**
 * Other middleware may end an invocation early, and middy then calls no `after` hook: the transaction would stay open, and
 * the handler's writes would be lost silently. But middy assigns the response, and this setter throws there.
 */
function watchForEarlyEnd(request: MiddyRequest): void {
  let response: unknown;
  Object.defineProperty(request, "response", {
    configurable: true,
    enumerable: true,
    get: () => response,
    set(value) {
      response = value;
      const open = invocationOf(request)?.open;
      if (open === undefined || !Object.hasOwn(request, "earlyResponse")) return;
      if (request.error) {
        delete (request.internal as Internal)[key];
        open.rollback().catch(() => {}); // another middleware has handled the error; middy does not wait for this
        return;
      }
      delete request.earlyResponse; // it would end the error handling too
      throw new InvalidOperationError(
        "transaction: a middleware inside of it ended the invocation early. Move that middleware before .use(transaction(db)).",
      );
    },
  });
}

/** Records the message. A duplicate ends the invocation at once, as a success without a response. */
export function inbox<Event = unknown>(options: InboxMiddlewareOptions<Event>): MiddyMiddleware {
  const neutral = neutralInbox<Event>({ messageId: eventId, ...options });
  return {
    stage: "inbox",
    before: async function inboxBefore(request) {
      const invocation = enter(request, "inbox");
      if (await neutral.isNew(invocation.open.scope, request.event)) return;
      delete (request.internal as Internal)[key];
      await invocation.open.commit(); // middy runs no `after` hook when an invocation ends early
      request.earlyResponse = undefined;
    },
  };
}

/** Writes the messages that the handler returns into the outbox. The response is then empty. */
export function outbox(options?: OutboxMiddlewareOptions): MiddyMiddleware {
  const neutral = neutralOutbox(options);
  return {
    stage: "outbox",
    before: async function outboxBefore(request) {
      neutral.collect(enter(request, "outbox").open.scope);
    },
    after: async function outboxAfter(request) {
      const { response } = request;
      request.response = undefined;
      await neutral.write(invocationOf(request)!.open.scope, response);
    },
  };
}

/**
 * Checks the order of a list of middleware and returns the list, for `use`. A wrong order throws when the function loads.
 *
 * @example
 * middy(work).use(orderedMiddleware([transaction(db), inbox({ subscriber: "orders" }), outbox()]))
 */
export function orderedMiddleware<Entry extends MiddlewareObj>(middleware: readonly Entry[]): Entry[] {
  requireOrder(
    middleware.flatMap((entry) => ("stage" in entry ? [(entry as unknown as MiddyMiddleware).stage] : [])),
  );
  return [...middleware];
}

/** The id of an SQS event with one record, or of an EventBridge event. */
function eventId(event: unknown): string | undefined {
  const { Records: records, id } = (event ?? {}) as { Records?: unknown; id?: unknown };
  if (!Array.isArray(records)) return typeof id === "string" ? id : undefined;
  if (records.length !== 1) {
    throw new InvalidArgumentError(
      `inbox: the event has ${records.length} records, but a transaction handles one message. Set the trigger's batch size to 1, or use sqsHandler.`,
    );
  }
  return sqsMessage(records[0]).messageId;
}

export { type SqsHandlerOptions, sqsHandler, sqsMessage } from "./sqs.js";
