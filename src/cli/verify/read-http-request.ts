import { UsageError } from "../command.js";

/** A request as it came over the wire. */
export interface CapturedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  readonly body: Uint8Array;
  /** What is odd about the file and may be the reason for a refusal. */
  readonly notes: readonly string[];
}

const form =
  'The file must look like a request: a line such as "POST /webhooks/stripe HTTP/1.1", the headers, an empty line, and the body';

/** Reads a request in the form of HTTP/1.1. `url` is the address that the provider called, where the file does not have it. */
export function readHttpRequest(file: Uint8Array, url?: string): CapturedRequest {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength);
  const [headEnd, bodyStart] = endOfHead(bytes);
  const [first = "", ...lines] = bytes.subarray(0, headEnd).toString("latin1").split(/\r?\n/);
  const [, method, target] = /^([A-Z]+) (\S+)(?: HTTP\/[\d.]+)?$/.exec(first) ?? [];
  if (method === undefined || target === undefined)
    throw new UsageError(`${form}. Its first line is not one.`);
  const headers = headersOf(lines);
  return {
    method,
    url: url ?? calledUrl(target, headers),
    headers,
    ...bodyOf(bytes.subarray(bodyStart), headers),
  };
}

/** The end of the last header, and the start of the body. Editors save a request with the line breaks of their system. */
function endOfHead(bytes: Buffer): readonly [number, number] {
  const ends = ["\r\n\r\n", "\n\n"].flatMap((mark) => {
    const at = bytes.indexOf(mark);
    return at < 0 ? [] : [[at, at + mark.length] as const];
  });
  return ends.sort(([a], [b]) => a - b)[0] ?? [bytes.length, bytes.length];
}

function headersOf(lines: readonly string[]): Headers {
  const headers = new Headers();
  for (const line of lines.filter((text) => text !== "")) {
    const [, name, value] = /^([^\s:]+):[ \t]*(.*?)[ \t]*$/.exec(line) ?? [];
    if (name === undefined) throw new UsageError(`${form}. A line of its head is not a header.`);
    headers.append(name, value!);
  }
  return headers;
}

function calledUrl(target: string, headers: Headers): string {
  if (/^https?:\/\//.test(target)) return target;
  const host = headers.get("host");
  if (host === null) throw new UsageError("The file has no Host header. Give --url.");
  const isLocal = /^(localhost|127\.|\[::1\])/.test(host);
  return `${headers.get("x-forwarded-proto") ?? (isLocal ? "http" : "https")}://${host}${target}`;
}

function bodyOf(rest: Buffer, headers: Headers): Pick<CapturedRequest, "body" | "notes"> {
  if (headers.get("transfer-encoding")?.toLowerCase() === "chunked") {
    const body = withoutChunks(rest);
    return body === undefined ? { body: rest, notes: [] } : { body, notes: [] };
  }
  const length = Number(headers.get("content-length") ?? Number.NaN);
  if (rest.length < length) {
    const note = `The body has ${rest.length} bytes and Content-Length says ${length}: a part of it is missing.`;
    return { body: rest, notes: [note] };
  }
  return { body: rest.length > length ? rest.subarray(0, length) : rest, notes: [] };
}

/** Returns undefined when the body is not in chunks: most tools write it in one piece and keep the header. */
function withoutChunks(bytes: Buffer): Buffer | undefined {
  const chunks: Buffer[] = [];
  for (let at = 0; ; ) {
    const end = bytes.indexOf("\n", at);
    const size = /^([0-9a-f]+)\s*$/i.exec(bytes.subarray(at, end).toString("latin1"))?.[1];
    if (end < 0 || size === undefined) return undefined;
    const length = Number.parseInt(size, 16);
    if (length === 0) return Buffer.concat(chunks);
    chunks.push(bytes.subarray(end + 1, end + 1 + length));
    at = bytes.indexOf("\n", end + 1 + length) + 1;
    if (at === 0) return undefined;
  }
}
