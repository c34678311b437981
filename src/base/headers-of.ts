import { jsonContent } from "./json-content.js";
import type { PlainResponse } from "./plain-http.js";

/** All headers that a host has to send but the content's length. */
export const headersOf = ({ headers, body = "" }: PlainResponse): Record<string, string> =>
  body === "" ? { ...headers } : { ...jsonContent, ...headers };
