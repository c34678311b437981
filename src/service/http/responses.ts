import * as z from "zod/mini";
import type { Logger } from "../../base/logger.js";
import { type PlainResponse, privateHeaders } from "../../base/plain-http.js";

export type Auth = "bearer" | "none";

/** How a request ended: its response, and the outcome to log and count. */
export interface Ending {
  readonly response: PlainResponse;
  readonly outcome: string;
  /** For the log only. */
  readonly reason?: string;
}

/** How long a caller should wait before it tries again. */
const retryAfterSeconds = "1";

/** The responses of a service that announces this kind of authentication. */
export function serviceResponses(auth: Auth) {
  const common = { ...privateHeaders, "oncebox-auth": auth };
  const json = (status: number, value: unknown, headers: Readonly<Record<string, string>> = {}) => ({
    status,
    headers: { ...common, ...headers },
    body: JSON.stringify(value),
  });
  const failed = (
    status: number,
    code: string,
    message: string,
    headers: Readonly<Record<string, string>> = {},
  ): Ending => ({ response: json(status, { error: { code, message } }, headers), outcome: code });
  return {
    ok: (value: { readonly status: string }): Ending => ({
      response: json(200, value),
      outcome: value.status,
    }),
    document: (text: string): Ending => ({
      response: { status: 200, headers: common, body: text },
      outcome: "Document",
    }),
    options: (allow: string): Ending => ({
      response: { status: 204, headers: { ...common, allow } },
      outcome: "Options",
    }),
    /** The log gets the kind of problem and no value of the request: a key may hold personal data. */
    badRequest: (refusal: Refusal): Ending => ({
      response: json(400, { error: answerOf(refusal) }),
      outcome: refusal.code,
    }),
    unauthorized: (): Ending => ({
      response: { status: 401, headers: { ...common, "www-authenticate": 'Bearer realm="oncebox"' } },
      outcome: "Unauthorized",
    }),
    /** Without tokens, a page of another site could use the service by the browser of somebody who can reach it. */
    forbidden: (): Ending => ({ response: { status: 403, headers: common }, outcome: "Forbidden" }),
    notFound: () =>
      failed(404, "NotFound", "There is nothing at this path. The paths are listed in /v1/openapi.json."),
    methodNotAllowed: (allow: string) =>
      failed(405, "MethodNotAllowed", `This path takes ${allow}.`, { allow }),
    unavailable: (reason: string): Ending => ({
      ...failed(503, "Unavailable", "The service cannot reach what it needs. Try again.", {
        "retry-after": retryAfterSeconds,
      }),
      reason,
    }),
  };
}

/** The response of a host that could not make the service, with its log line. */
export function unavailableService(auth: Auth, logger: Logger, reason: string): PlainResponse {
  const ending = serviceResponses(auth).unavailable(reason);
  logEnding(logger, "none", ending);
  return ending.response;
}

/** One line per request. It has no key, no lease id and no token; the alarms of both clouds read its message and status. */
export function logEnding(logger: Logger, operation: string, { response, outcome, reason }: Ending): void {
  const { status } = response;
  const level = status >= 500 ? "error" : status >= 400 ? "warn" : "debug";
  logger[level]("inbox service", { operation, outcome, status, reason });
}

const requestCodes = [
  "BodyTooLarge",
  "BodyUnreadable",
  "NotJson",
  "NotAnObject",
  "MissingField",
  "UnknownField",
  "InvalidField",
] as const;

/** What is wrong with a request, and where. The sender gets it with status 400. */
export interface Refusal {
  readonly code: (typeof requestCodes)[number];
  readonly message: string;
  /** The field of the request, or "body". */
  readonly field: string;
  /** What a log gets instead of `field` where the sender has made up a name: that may be a pasted token. */
  readonly logged?: { readonly field?: string; readonly unknown?: number };
}

/** What the sender gets. */
export const answerOf = ({ code, message, field }: Refusal) => ({ code, message, field });

/** The body of a 400. */
export const badRequestAnswer = z.object({
  error: z.object({
    code: z.enum(requestCodes),
    message: z.string().check(z.describe("For people to read.")),
    field: z.string().check(z.describe("The field of the request that is wrong, or `body`.")),
  }),
});

/** The body of a 404, a 405 and a 503. */
export const failureAnswer = z.object({
  error: z.object({
    code: z.enum(["NotFound", "MethodNotAllowed", "Unavailable"]),
    message: z.string().check(z.describe("For people to read.")),
  }),
});
