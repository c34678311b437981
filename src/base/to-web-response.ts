import { headersOf } from "./headers-of.js";
import type { PlainResponse } from "./plain-http.js";

export function toWebResponse(response: PlainResponse): Response {
  const { status, body = "" } = response;
  return new Response(body === "" ? null : body, { status, headers: headersOf(response) });
}
