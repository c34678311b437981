import { sleep, withDeadline } from "../../base/async.js";
import { safeReason } from "../../base/logger.js";
import { knownByCode, type OnceboxErrorInfo } from "../../errors.js";
import { type BodyRefusal, fetchCause, readBody } from "../../http/body.js";
import { backoffMs, type RetryPolicy } from "../../queue/retry-policy.js";

const policy: RetryPolicy = { maxAttempts: 5, baseMs: 50, factor: 2, maxMs: 2_000, jitterMs: 100 };

export interface ServiceRequest {
  /** From the service's URL on: `v1/inbox/…`. */
  readonly path: string;
  /** GET without one, POST with one. */
  readonly body?: Readonly<Record<string, unknown>>;
}

export type Fields = Readonly<Record<string, unknown>>;

interface Sender {
  readonly base: URL;
  readonly token: string | undefined;
  /** The longest time of one attempt. */
  readonly attemptMs: number;
  /** When the whole call has to end, by `performance.now()`. */
  readonly endsAt: number;
}

/**
 * Sends a request, and repeats it after faults that pass. All calls of the contract may be repeated: a try-begin because it
 * proposes its lease id, the others because the lease id says what they mean. A refusal (400, 401) is final.
 */
export async function callService(
  sender: Sender,
  request: ServiceRequest,
  signal: AbortSignal | undefined,
): Promise<Fields> {
  const { attemptMs, endsAt } = sender;
  const send = (inTime: AbortSignal) => sendRequest(sender, request, inTime);
  for (let attempt = 1; ; attempt++) {
    try {
      return await withDeadline(attemptMs, "An attempt to call the inbox service", send, signal);
    } catch (error) {
      signal?.throwIfAborted();
      const delayMs = delayBefore(attempt, error);
      // An answer after the deadline is of no use: the caller learns at once what happened.
      if (delayMs === undefined || performance.now() + delayMs >= endsAt) throw explained(error);
      await sleep(delayMs, signal);
    }
  }
}

/** Undefined when the call must not be repeated. */
function delayBefore(attempt: number, error: unknown): number | undefined {
  if (attempt >= policy.maxAttempts) return undefined;
  if (isTimeout(error)) return backoffMs(policy, attempt);
  if (!(error instanceof InboxServiceError) || !error.isTransient) return undefined;
  return Math.max(backoffMs(policy, attempt), error.retryAfterMs ?? 0);
}

const isTimeout = (error: unknown): error is Error => (error as Error | undefined)?.name === "TimeoutError";

const explained = (error: unknown): unknown =>
  isTimeout(error)
    ? new InboxServiceError("The inbox service did not answer in time.", { isTransient: true, cause: error })
    : error;

/** An answer of the contract is some hundred bytes. */
const maxAnswerBytes = 65_536;

/** One attempt. Returns the fields of a 200, or throws an InboxServiceError with what the service said. */
async function sendRequest(
  { base, token }: Sender,
  request: ServiceRequest,
  signal: AbortSignal,
): Promise<Fields> {
  const { body } = request;
  const response = await fetch(new URL(request.path, base), {
    method: body === undefined ? "GET" : "POST",
    headers: {
      accept: "application/json",
      ...(body && { "content-type": "application/json" }),
      ...(token && { authorization: `Bearer ${token}` }),
    },
    ...(body && { body: JSON.stringify(body) }),
    redirect: "manual", // another host must not get the token
    signal,
  }).catch((error: unknown) => {
    signal.throwIfAborted();
    throw unreachable(base, error);
  });
  const bytes = await readBody(response, { maxBytes: maxAnswerBytes });
  signal.throwIfAborted(); // a body that was cut by the abort
  if (bytes === "malformed") throw unreachable(base, new Error("the answer was cut off"));
  const fields = fieldsOf(bytes);
  if (response.status === 200 && typeof fields?.status === "string") return fields;
  throw refusal(base, response, fields, token);
}

function fieldsOf(bytes: Uint8Array | BodyRefusal): Fields | undefined {
  if (typeof bytes === "string") return undefined;
  try {
    const parsed: unknown = JSON.parse(Buffer.from(bytes).toString("utf8"));
    return typeof parsed === "object" && parsed !== null ? (parsed as Fields) : undefined;
  } catch {
    return undefined;
  }
}

const unreachable = ({ host }: URL, error: unknown): InboxServiceError => {
  const cause = fetchCause(error);
  const text = `The inbox service at ${host} could not be reached, or ended the connection: ${safeReason(cause)}.`;
  return new InboxServiceError(text, { isTransient: true, cause });
};

function refusal(
  { host }: URL,
  { status, headers }: Response,
  fields: Fields | undefined,
  token: string | undefined,
): InboxServiceError {
  const isTransient = status === 408 || status === 429 || status >= 500;
  const { message, field } = (fields?.error ?? {}) as Fields;
  return new InboxServiceError(`The inbox service at ${host} ${said(status, message, token)}`, {
    status,
    field: typeof field === "string" ? field : null,
    isTransient,
    retryAfterMs: retryAfterMs(headers.get("retry-after")),
  });
}

function said(status: number, message: unknown, token: string | undefined): string {
  if (status === 401)
    return token === undefined
      ? "wants a bearer token: give the client a token."
      : "does not know the token that the client was given.";
  if (status === 200) return "answered 200 with a body that is not of the contract. Check the URL.";
  return `answered ${status}${typeof message === "string" ? `: ${message.slice(0, 300)}` : "."}`;
}

/** Retry-After has seconds or a date. Null when it is absent or unreadable. */
function retryAfterMs(header: string | null): number | null {
  if (header === null) return null;
  const ms = /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : null;
}

interface InboxServiceErrorDetails
  extends Pick<InboxServiceError, "isTransient">,
    Partial<Pick<InboxServiceError, "status" | "field" | "retryAfterMs" | "cause">> {}

/** The inbox service refused a call, could not be reached, or answered what the contract does not know. */
export class InboxServiceError extends Error implements OnceboxErrorInfo {
  static readonly code = "ONCEBOX_INBOX_SERVICE";
  static {
    knownByCode(InboxServiceError);
  }

  readonly code = InboxServiceError.code;
  override readonly name = "InboxServiceError";
  /** Of the last answer; null when there was none. */
  readonly status: number | null;
  /** The same call may succeed later. The client has repeated it as often as it may. */
  readonly isTransient: boolean;
  /** Which field of the request the service refused, if it said so. */
  readonly field: string | null;
  /** How long the service wants callers to wait, if it said so. */
  readonly retryAfterMs: number | null;

  constructor(message: string, details: InboxServiceErrorDetails) {
    const { status = null, isTransient, field = null, retryAfterMs = null, cause } = details;
    super(message, cause === undefined ? {} : { cause });
    this.status = status;
    this.isTransient = isTransient;
    this.field = field;
    this.retryAfterMs = retryAfterMs;
  }
}
