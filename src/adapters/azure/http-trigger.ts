import type { HttpRequest, HttpResponseInit } from "@azure/functions";

/** A web Request. The body has the bytes that were sent, and is a stream if the host streams it. */
export function requestFromHost({ url, method, headers, body }: HttpRequest): Request {
  const init: RequestInit & { duplex?: "half" } = { method, headers };
  if (body !== null) {
    init.body = body;
    init.duplex = "half";
  }
  return new Request(url, init);
}

export const toHttpResponse = ({ status, headers, body }: Response): HttpResponseInit => ({
  status,
  headers,
  ...(body === null ? {} : { body }),
});
