import { type BodyRefusal, readBody } from "../../base/read-body.js";
import { safeReason } from "../../base/safe-reason.js";
import { InboxServiceError } from "./inbox-service-error.js";

/** An answer of the contract is some hundred bytes. */
const maxAnswerBytes = 65_536;

export interface ServiceRequest {
  /** From the service's URL on: `v1/inbox/…`. */
  readonly path: string;
  /** GET without one, POST with one. */
  readonly body?: Readonly<Record<string, unknown>>;
}

export type Fields = Readonly<Record<string, unknown>>;

export interface Sender {
  readonly base: URL;
  readonly token: string | undefined;
}

/** One attempt. Returns the fields of a 200, or throws an InboxServiceError with what the service said. */
export async function sendRequest(
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
  const cause = (error as { cause?: unknown }).cause ?? error; // fetch hides the socket's error behind one of its own
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

/** Retry-After holds seconds or a date. Null when it is absent or unreadable. */
function retryAfterMs(header: string | null): number | null {
  if (header === null) return null;
  const ms = /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : null;
}
