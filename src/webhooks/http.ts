/**
 * HTTP as far as webhooks need it. A web `Request` is an `IncomingRequest`; but making one, or a `Response`, loads Node's
 * whole fetch, a quarter of a function's cold start. A platform that has the parts anyway passes them as they are.
 */
export interface IncomingRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHeaders;
  /** Whole, or to be read. */
  readonly body: Uint8Array | BodyStream | null;
}

/** By any spelling of the name; what was sent more than once is joined by commas. */
export interface IncomingHeaders {
  get(name: string): string | null;
}

export interface BodyStream {
  getReader(): {
    read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | undefined }>;
    cancel(): Promise<void>;
  };
}

export interface Answer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export const toResponse = ({ status, headers, body }: Answer): Response =>
  new Response(body, { status, headers });

/** What may stand in a header: above all no line break. */
export const isHeaderValue = (text: string): boolean => /^[\t\x20-\x7e\x80-\xff]*$/.test(text);
