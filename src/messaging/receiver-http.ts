import { readBody } from "../base/read-body.js";
import { openRequest } from "./open-request.js";
import type { Receive } from "./receiver.js";
import type { ServiceParts } from "./service-parts.js";

/** The receiver as a function from a request to a response: `POST {prefix}/receive`. */
export function receiverHttp(parts: ServiceParts, receive: Receive): (request: Request) => Promise<Response> {
  const { prefix, maxBodyBytes } = parts.settings;
  const path = `${prefix}/receive`;
  return async (request) => {
    if (new URL(request.url).pathname !== path) return refused(404);
    if (request.method !== "POST") return refused(405);
    const body = await readBody(request, maxBodyBytes);
    if (body === "too large" || body === "malformed") {
      parts.reports.malformed(body);
      request.body?.cancel().catch(() => {});
      return refused(body === "too large" ? 413 : 400);
    }
    const opened = openRequest(parts, body);
    if ("status" in opened) return refused(opened.status);
    const { acknowledged, duplicateDetected, payload, error } = await receive(opened.envelope);
    return acknowledged
      ? Response.json({ acknowledged, duplicateDetected, payload: payload ?? null })
      : Response.json({ acknowledged, error }, { status: 500 });
  };
}

const refused = (status: number): Response => new Response(null, { status });
