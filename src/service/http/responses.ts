import type { PlainResponse } from "../../base/plain-http.js";
import { privateHeaders } from "../../base/private-headers.js";
import { answerOf, type Refusal } from "./refusal.js";

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
