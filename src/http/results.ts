import type { IncomingMessage, ServerResponse } from "node:http";
import { type LogFields, type Logger, safeReason } from "../base/logger.js";
import { answerOf, type Refusal } from "./fields.js";
import type { Route } from "./node.js";
import {
  emptyResponse,
  jsonResponse,
  logLevelOf,
  type PlainResponse,
  type PlainRoute,
  type ResponseHeaders,
  respondPlainly,
  textResponse,
  webRoute,
} from "./plain.js";
import { refusalLog } from "./refusal-log.js";

/** How a request ended: its response, and what the log says of it. */
export interface HttpResult {
  readonly response: PlainResponse;
  readonly outcome: string;
  /** For the log only. */
  readonly details?: LogFields | undefined;
}

/** How long a caller should wait before it tries again. */
const retryAfter = { "retry-after": "1" };

/** The results of an API whose responses are JSON. Each of them has the API's own headers. */
export function apiResults({ headers: own = {}, realm }: { headers?: ResponseHeaders; realm: string }) {
  const json = (
    status: number,
    outcome: string,
    value: unknown,
    headers: ResponseHeaders = {},
  ): HttpResult => ({
    response: jsonResponse(status, value, { ...own, ...headers }),
    outcome,
  });
  const empty = (status: number, outcome: string, headers: ResponseHeaders = {}): HttpResult => ({
    response: emptyResponse(status, { ...own, ...headers }),
    outcome,
  });
  const refused = (status: number, code: string, message: string, headers?: ResponseHeaders): HttpResult =>
    json(status, code, { error: { code, message } }, headers);
  return {
    json,
    empty,
    refused,
    text: (outcome: string, body: string, headers: ResponseHeaders = {}): HttpResult => ({
      response: textResponse(200, body, { ...own, ...headers }),
      outcome,
    }),
    /** The log may have the kind of problem, and of the request neither a value nor a name that no route has. */
    badRequest: (refusal: Refusal): HttpResult => ({
      ...json(400, refusal.code, { error: answerOf(refusal) }),
      details: refusal.logged ?? { field: refusal.field },
    }),
    unauthorized: (): HttpResult =>
      empty(401, "Unauthorized", { "www-authenticate": `Bearer realm="${realm}"` }),
    /** The answer to OPTIONS, and to a method that the path does not take. */
    wrongMethod(method: string, methods: readonly string[]): HttpResult {
      const allow = [...methods, "OPTIONS"].join(", ");
      return method === "OPTIONS"
        ? empty(204, "Options", { allow })
        : refused(405, "MethodNotAllowed", `This path takes ${allow}.`, { allow });
    },
    unavailable: (message: string, reason: string): HttpResult => ({
      ...refused(503, "Unavailable", message, retryAfter),
      details: { reason },
    }),
  };
}

interface RequestLine {
  /** What was asked for: the first field of the line. */
  readonly subject: LogFields;
  readonly fields?: LogFields;
  /** Of a request that was neither refused nor failed. */
  readonly level?: "debug" | "info";
  /** Whether the caller has shown a right token. Others are logged as `refusalLog` says. */
  readonly isProven: boolean;
}

export type RequestLog = (result: HttpResult, line: RequestLine) => void;

/** Logs requests. A line has no token and no value of the request; alarms read its name and its status. */
export function requestLog(logger: Logger, message: string, now: () => number): RequestLog {
  const logRefusal = refusalLog(logger, now);
  return (
    { response: { status }, outcome, details },
    { subject, fields: own, level: normal = "debug", isProven },
  ) => {
    const level = logLevelOf(status, normal);
    const fields: LogFields = { ...subject, outcome, status, ...own, ...details };
    if (isProven || level === "debug" || level === "info") logger[level](message, fields);
    else logRefusal({ level, message, fields, kind: [outcome], detail: fields.reason });
  };
}

/** What responds to requests, for each kind of host. */
export interface HttpHandlers {
  /** For platforms that have the parts of a request. */
  readonly respond: PlainRoute;
  /** For hosts of the web's `Request` and `Response`. */
  readonly fetch: Route;
  /** For `createServer` of node:http. */
  readonly listener: (incoming: IncomingMessage, outgoing: ServerResponse) => void;
}

export function httpHandlers(respond: PlainRoute, logger: Logger): HttpHandlers {
  const failed = (error: unknown) => logger.error("request failed", { error: safeReason(error) });
  return {
    respond,
    fetch: webRoute(respond),
    listener: (incoming, outgoing) => void respondPlainly(incoming, outgoing, respond, failed),
  };
}
