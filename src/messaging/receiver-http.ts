import type { PlainResponse, PlainRoute } from "../base/plain-http.js";
import { readBody } from "../base/read-body.js";
import { openRequest } from "./open-request.js";
import type { Receive } from "./receiver.js";
import type { ServiceParts } from "./service-parts.js";

/** The receiver as a function from a request to a response: `POST {prefix}/receive`. */
export function receiverHttp(parts: ServiceParts, receive: Receive): PlainRoute {
  const { prefix, maxBodyBytes } = parts.settings;
  const expected = `${prefix}/receive`;
  return async (request) => {
    if (request.path !== expected) return { status: 404 };
    if (request.method !== "POST") return { status: 405 };
    const body = await readBody(request, maxBodyBytes);
    if (body === "too large" || body === "malformed") {
      parts.reports.malformed(body);
      return { status: body === "too large" ? 413 : 400 };
    }
    const opened = openRequest(parts, body);
    if ("status" in opened) return opened;
    const { acknowledged, duplicateDetected, payload, error } = await receive(opened.envelope);
    return acknowledged
      ? json(200, { acknowledged, duplicateDetected, payload: payload ?? null })
      : json(500, { acknowledged, error });
  };
}

const json = (status: number, value: unknown): PlainResponse => ({ status, body: JSON.stringify(value) });
