import { openBodies } from "../base/open-bodies.js";
import { type PlainResponse, webRoute } from "../base/plain-http.js";
import { privateHeaders } from "../base/private-headers.js";
import { readBody } from "../base/read-body.js";
import type { ServiceReceiver } from "./create-service.js";
import { openRequest } from "./open-request.js";
import type { Receive } from "./receiver.js";
import type { ServiceParts } from "./service-parts.js";

/** The receiver for hosts that speak HTTP: `POST {prefix}/receive`. */
export function receiverHttp(parts: ServiceParts, receive: Receive): Omit<ServiceReceiver, "receive"> {
  const { prefix, maxBodyBytes } = parts.settings;
  const path = `${prefix}/receive`;
  const unverified = openBodies({ maxBytes: Math.max(unverifiedBytes, maxBodyBytes) });

  const answerTo: ServiceReceiver["handle"] = async (request) => {
    if (request.method !== "POST") return { status: 405, headers: { allow: "POST" } };
    const body = await readBody(request, { maxBytes: maxBodyBytes, withinMs: bodyMs, among: unverified });
    if (typeof body === "string") {
      parts.reports.malformed(body);
      return { status: statuses[body] };
    }
    const opened = openRequest(parts, body);
    if ("status" in opened) return opened;
    const { acknowledged, duplicateDetected, payload, error, permanent } = await receive(opened.envelope);
    return acknowledged
      ? json(200, { acknowledged, duplicateDetected, payload: payload ?? null })
      : json(500, { acknowledged, error, permanent }); // JSON leaves out a member that is undefined
  };
  const handle: ServiceReceiver["handle"] = async (request) => withPrivateHeaders(await answerTo(request));
  const respond: ServiceReceiver["respond"] = async (request) =>
    request.path === path ? handle(request) : withPrivateHeaders({ status: 404 });

  return { handle, respond, fetch: webRoute(respond), maxBodyBytes };
}

/** A sender gives up after 30 s by default. */
const bodyMs = 30_000;
/** All bodies that are read at the same time, before their signatures are verified. */
const unverifiedBytes = 64 * 1_048_576;
const statuses = { "too large": 413, malformed: 400, "too slow": 408, "too many": 503 } as const;

const withPrivateHeaders = ({ headers, ...response }: PlainResponse): PlainResponse => ({
  ...response,
  headers: { ...privateHeaders, ...headers },
});

const json = (status: number, value: unknown): PlainResponse => ({ status, body: JSON.stringify(value) });
