import { type PlainResponse, webRoute } from "../base/plain-http.js";
import { readBody } from "../base/read-body.js";
import type { ServiceReceiver } from "./create-service.js";
import { openRequest } from "./open-request.js";
import type { Receive } from "./receiver.js";
import type { ServiceParts } from "./service-parts.js";

/** The receiver for hosts that speak HTTP: `POST {prefix}/receive`. */
export function receiverHttp(parts: ServiceParts, receive: Receive): Omit<ServiceReceiver, "receive"> {
  const { prefix, maxBodyBytes } = parts.settings;
  const path = `${prefix}/receive`;

  const handle: ServiceReceiver["handle"] = async (request) => {
    if (request.method !== "POST") return { status: 405, headers: { allow: "POST" } };
    const body = await readBody(request, maxBodyBytes);
    if (body === "too large" || body === "malformed") {
      parts.reports.malformed(body);
      return { status: body === "too large" ? 413 : 400 };
    }
    const opened = openRequest(parts, body);
    if ("status" in opened) return opened;
    const { acknowledged, duplicateDetected, payload, error, permanent } = await receive(opened.envelope);
    return acknowledged
      ? json(200, { acknowledged, duplicateDetected, payload: payload ?? null })
      : json(500, { acknowledged, error, permanent }); // JSON leaves out a member that is undefined
  };
  const respond: ServiceReceiver["respond"] = async (request) =>
    request.path === path ? handle(request) : { status: 404 };

  return { handle, respond, fetch: webRoute(respond), maxBodyBytes };
}

const json = (status: number, value: unknown): PlainResponse => ({ status, body: JSON.stringify(value) });
