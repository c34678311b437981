import type { HttpRequest, HttpResponseInit } from "@azure/functions";

/** A web Request with the bytes of the body as they were sent, streamed where the host streams them. */
export function toRequest({ url, method, headers, body }: HttpRequest): Request {
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
