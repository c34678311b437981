import type { LogFields, Logger } from "../base/logger.js";
import type { PlainResponse } from "../base/plain-http.js";
import { answerOf, type Refusal } from "../service/http/responses.js";

/** How a request ended: its response, and what the log says of it. */
export interface Ending {
  readonly response: PlainResponse;
  readonly outcome: string;
  /** For the log only. */
  readonly details?: LogFields | undefined;
}

/** A request that has ended, for the log. */
export interface Ended {
  readonly ending: Ending;
  readonly route?: string;
  readonly by?: string;
  readonly tenant?: string | undefined;
}

/** What a route returns. A refusal is not thrown: it is expected. */
export type Answer =
  | { readonly ok: unknown; readonly status?: 200 | 503; readonly details?: LogFields }
  | { readonly notFound: string }
  | { readonly conflict: string }
  | { readonly badRequest: Refusal };

const common = { "cache-control": "no-store", "x-content-type-options": "nosniff" };

type Headers = Readonly<Record<string, string>>;

const json = (status: number, value: unknown, headers: Headers = {}): PlainResponse => ({
  status,
  headers: { ...common, ...headers },
  body: JSON.stringify(value),
});

const failed = (status: number, code: string, message: string, headers: Headers = {}): Ending => ({
  response: json(status, { error: { code, message } }, headers),
  outcome: code,
});

export const adminResponses = {
  answer(answer: Answer): Ending {
    if ("notFound" in answer) return failed(404, "NotFound", answer.notFound);
    if ("conflict" in answer) return failed(409, "Conflict", answer.conflict);
    if ("badRequest" in answer) return adminResponses.badRequest(answer.badRequest);
    const { status = 200, ok, details } = answer;
    return { response: json(status, ok), outcome: status === 200 ? "OK" : "Unavailable", details };
  },
  file: (body: string, headers: Headers): Ending => ({
    response: { status: 200, headers: { ...common, ...headers }, body },
    outcome: "File",
  }),
  options: (allow: string): Ending => ({
    response: { status: 204, headers: { ...common, allow } },
    outcome: "Options",
  }),
  /** The log gets the kind of problem, and of the request neither a value nor a name that no route has. */
  badRequest: (refusal: Refusal): Ending => ({
    response: json(400, { error: answerOf(refusal) }),
    outcome: refusal.code,
    details: refusal.logged ?? { field: refusal.field },
  }),
  unauthorized: (): Ending => ({
    response: { status: 401, headers: { ...common, "www-authenticate": 'Bearer realm="oncebox admin"' } },
    outcome: "Unauthorized",
  }),
  tooMany: (seconds: number): Ending =>
    failed(429, "TooManyRequests", "Too many requests, or too many wrong tokens. Wait, and try again.", {
      "retry-after": String(seconds),
    }),
  notFound: (): Ending => failed(404, "NotFound", "There is nothing at this path."),
  methodNotAllowed: (allow: string): Ending =>
    failed(405, "MethodNotAllowed", `This path takes ${allow}.`, { allow }),
  /** The reason names no host, no user and no value: see `safeReason`. */
  unavailable: (reason: string): Ending => ({
    ...failed(503, "Unavailable", `The database, or what else is needed, did not answer: ${reason}`, {
      "retry-after": "1",
    }),
    details: { reason },
  }),
};

/**
 * One line per request: who asked for what, and how it ended. What changed something or showed a payload is written at
 * info. It has no token and no value of the query or the body; of a payload that was shown, the message's key.
 */
export function logEnding(logger: Logger, { ending, route = "none", by, tenant }: Ended): void {
  const { response, outcome, details } = ending;
  const { status } = response;
  const isOfNote = route.startsWith("POST") || details?.payload === true;
  const level = status >= 500 ? "error" : status >= 400 ? "warn" : isOfNote ? "info" : "debug";
  logger[level]("admin", { route, outcome, status, by, tenant, ...details });
}

/** The response of a host that could not make the API, with its log line. The reason is for the log alone: nobody has shown a token. */
export function unavailableAdmin(logger: Logger, reason: string): PlainResponse {
  const { response } = adminResponses.unavailable("the function could not start.");
  logEnding(logger, { ending: { response, outcome: "Unavailable", details: { reason } } });
  return response;
}
