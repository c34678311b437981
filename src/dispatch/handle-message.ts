import type { QueueMessage } from "../queue/message.js";
import { describeIssues } from "../queue/standard-schema.js";
import { handlerContext } from "./handler-context.js";
import type { HandlerContext, ResolvedHandler } from "./handlers.js";
import { type HandlingEnd, PermanentFailure, permanentFailure, RetryAfter } from "./settlement.js";

/** Wraps every handler: `(message, context, next) => …`. The first is the outermost. */
export type HandlerMiddleware<Message, Tx = unknown> = (
  message: Message,
  context: HandlerContext<Tx>,
  next: () => Promise<unknown>,
) => Promise<unknown>;

export interface Handling<Message, Tx> {
  readonly message: Message;
  readonly handler: ResolvedHandler<Message, Tx> | undefined;
}

/** What the handlers of one run have around them. Shared, so that a message costs no closures. */
export interface Surroundings<Message, Tx, Of extends Handling<Message, Tx> = Handling<Message, Tx>> {
  readonly middleware: readonly HandlerMiddleware<Message, Tx>[];
  readonly store: string;
  /** Fires at the function's end or when the lease is lost. Made when it is first asked for: most never ask. */
  signalOf(handling: Of): AbortSignal;
  /** A transaction that also acknowledges the message; rejects, and rolls back, if the lease is lost. */
  inTransaction(handling: Of, work: (tx: Tx) => Promise<void>): Promise<void>;
  /** Rolls it back, whatever the handler still does. */
  endTransaction(handling: Of): void;
}

export interface Handled {
  readonly end: HandlingEnd;
  /** The transaction has acknowledged it already. */
  readonly acked: boolean;
}

export const finished: Handled = { end: { kind: "ok" }, acked: false };
const committed: Handled = { end: { kind: "ok" }, acked: true };
const thrown = (error: unknown): Handled => ({ end: { kind: "error", error }, acked: false });

/**
 * Handles one message to its end. Never throws or rejects. A plain handler that returns no promise is at its end
 * at once: with fast handlers, promises would be most of the cost.
 */
export function handleMessage<Message extends QueueMessage, Tx, Of extends Handling<Message, Tx>>(
  handling: Of,
  around: Surroundings<Message, Tx, Of>,
): Handled | Promise<Handled> {
  const { message, handler } = handling;
  if (handler === undefined) return { end: { kind: "noHandler", topic: message.topic }, acked: false };
  const { schema, timeoutMs, transactional } = handler;
  if (around.middleware.length > 0 || schema !== undefined || timeoutMs !== undefined || transactional)
    return handleWithin(handling, handler, around);
  try {
    const answer = handler.handle(
      message,
      handlerContext<Tx, Of>(around.store, undefined, handling, around.signalOf),
    );
    return isThenable(answer) ? Promise.resolve(answer).then(answered, thrown) : answered(answer);
  } catch (error) {
    return thrown(error);
  }
}

const isThenable = (answer: unknown): boolean =>
  typeof (answer as { then?: unknown } | null | undefined)?.then === "function";

const answered = (answer: unknown): Handled => (isSteering(answer) ? thrown(answer) : finished);

const isSteering = (answer: unknown): boolean =>
  answer instanceof PermanentFailure || answer instanceof RetryAfter;

/** With all that a handler can have around it. */
async function handleWithin<Message extends QueueMessage, Tx, Of extends Handling<Message, Tx>>(
  handling: Of,
  handler: ResolvedHandler<Message, Tx>,
  around: Surroundings<Message, Tx, Of>,
): Promise<Handled> {
  const timeout = handlerTimeout(handler.timeoutMs);
  try {
    if (timeout === undefined) await runHandler(handling, handler, around);
    else {
      const signal = AbortSignal.any([around.signalOf(handling), timeout.signal]);
      const work = runHandler(handling, handler, { ...around, signalOf: () => signal });
      await Promise.race([work, timeout.elapsed]);
    }
    return handler.transactional ? committed : finished;
  } catch (error) {
    if (error === timedOut) {
      around.endTransaction(handling);
      return { end: { kind: "timedOut", afterMs: handler.timeoutMs! }, acked: false };
    }
    return thrown(error);
  } finally {
    timeout?.clear();
  }
}

async function runHandler<Message extends QueueMessage, Tx, Of extends Handling<Message, Tx>>(
  handling: Of,
  handler: ResolvedHandler<Message, Tx>,
  around: Surroundings<Message, Tx, Of>,
): Promise<void> {
  const message = handler.schema === undefined ? handling.message : await withData(handling.message, handler);
  const attempt = async (tx: Tx | undefined): Promise<void> => {
    const context = handlerContext(around.store, tx, handling, around.signalOf);
    const chain = around.middleware.reduceRight<() => Promise<unknown>>(
      (next, wrap) => () => wrap(message, context, next),
      async () => handler.handle(message, context),
    );
    const answer = await chain();
    if (isSteering(answer)) throw answer;
    // Too late is too late: the timeout has been reported, so this must not commit.
    if (tx !== undefined) context.signal.throwIfAborted();
  };
  if (handler.transactional) await around.inTransaction(handling, attempt);
  else await attempt(undefined);
}

/** The payload, parsed and checked. A payload that does not fit will not fit next time either. */
async function withData<Message extends QueueMessage, Tx>(
  message: Message,
  handler: ResolvedHandler<Message, Tx>,
): Promise<Message & { data: unknown }> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(message.payload);
  } catch {
    throw permanentFailure(`The payload of "${message.topic}" is not JSON.`); // its text must not get into the error
  }
  const result = await handler.schema!["~standard"].validate(parsed);
  if (result.issues !== undefined) {
    throw permanentFailure(
      `The payload of "${message.topic}" does not fit its schema: ${describeIssues(result.issues)}`,
    );
  }
  return { ...message, data: result.value };
}

const timedOut = new Error("handler timeout");

function handlerTimeout(ms: number | undefined) {
  if (ms === undefined) return undefined;
  const controller = new AbortController();
  let timer: NodeJS.Timeout;
  const elapsed = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      controller.abort(new DOMException(`The handler's ${ms} ms are over.`, "TimeoutError"));
      reject(timedOut);
    }, ms);
  });
  elapsed.catch(() => {});
  return { signal: controller.signal, elapsed, clear: () => clearTimeout(timer) };
}
