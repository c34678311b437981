import { readBody } from "../base/read-body.js";
import { type Answer, type IncomingRequest, toResponse } from "../webhooks/http.js";
import type { ServiceReceiver } from "./create-service.js";
import { openRequest } from "./open-request.js";
import type { Receive } from "./receiver.js";
import type { ServiceParts } from "./service-parts.js";

/** The receiver for hosts that speak HTTP: `POST {prefix}/receive`. */
export function receiverHttp(
  parts: ServiceParts,
  receive: Receive,
): Pick<ServiceReceiver, "fetch" | "handle"> {
  const { prefix, maxBodyBytes } = parts.settings;
  const path = `${prefix}/receive`;

  const handle = async (request: IncomingRequest): Promise<Answer> => {
    if (request.method !== "POST") return refused(405);
    const body = await readBody(request, maxBodyBytes);
    if (body === "too large" || body === "malformed") {
      parts.reports.malformed(body);
      return refused(body === "too large" ? 413 : 400);
    }
    const opened = openRequest(parts, body);
    if ("status" in opened) return refused(opened.status);
    const { acknowledged, duplicateDetected, payload, error } = await receive(opened.envelope);
    return acknowledged
      ? json(200, { acknowledged, duplicateDetected, payload: payload ?? null })
      : json(500, { acknowledged, error });
  };

  return {
    handle,
    async fetch(request) {
      const answer = new URL(request.url).pathname === path ? await handle(request) : refused(404);
      if (answer.status === 400 || answer.status === 413) request.body?.cancel().catch(() => {});
      return toResponse(answer);
    },
  };
}

/** The sender gets no detail. */
const refused = (status: number): Answer => ({ status, headers: {}, body: "" });

const json = (status: number, body: object): Answer => ({
  status,
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});
