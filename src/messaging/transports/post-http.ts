import type { Agent, ClientRequest, RequestOptions } from "node:http";
import { collectBytes } from "../../base/collect-bytes.js";
import { reasonOf, TransportError } from "./transport-error.js";

export interface HttpAnswer {
  readonly status: number;
  readonly body: Uint8Array;
}

export interface PostSettings {
  readonly request: (options: RequestOptions) => ClientRequest;
  readonly agent: Agent;
  readonly maxResponseBytes: number;
  readonly signal: AbortSignal;
  /** The receiver, for errors. */
  readonly receiver: string;
}

/**
 * Posts a body and reads the whole response. Redirects are not followed. A receiver may close a kept connection while
 * the request is on its way, and after a frozen function thaws all kept connections are dead. The request is then sent
 * again at once on a new connection: receivers deduplicate, so that is safe.
 */
export async function postHttp(
  target: RequestOptions,
  body: string,
  settings: PostSettings,
): Promise<HttpAnswer> {
  const first = start(target, body, settings, settings.agent);
  try {
    return await first.answer;
  } catch (error) {
    const isStale = first.request.reusedSocket && /^(ECONNRESET|EPIPE)$/.test(reasonOf(error));
    if (!isStale || first.hasResponse() || settings.signal.aborted) throw failure(error, settings);
  }
  try {
    return await start(target, body, settings, false).answer; // no agent: a connection for this request only
  } catch (error) {
    throw failure(error, settings);
  }
}

const failure = (error: unknown, { receiver }: PostSettings): TransportError =>
  error instanceof TransportError
    ? error
    : new TransportError(`${receiver} could not be reached, or ended the connection: ${reasonOf(error)}.`);

function start(
  target: RequestOptions,
  body: string,
  { request: open, signal, maxResponseBytes, receiver }: PostSettings,
  agent: Agent | false,
) {
  const headers = {
    ...target.headers,
    "content-type": "application/json",
    accept: "application/json",
    "content-length": Buffer.byteLength(body),
  };
  const request = open({ ...target, method: "POST", headers, agent, signal });
  let responded = false;
  const answer = new Promise<HttpAnswer>((resolve, reject) => {
    request.on("error", reject); // stays: an error after the end must not end the process
    request.on("response", (response) => {
      responded = true;
      const tooLarge = () => {
        const error = new TransportError(`${receiver} returned more than ${maxResponseBytes} bytes.`);
        request.destroy();
        return error;
      };
      collectBytes(response, maxResponseBytes).then((bytes) => {
        if (bytes === "too large") return reject(tooLarge());
        // A receiver may respond before it has the whole body. It might never read the rest.
        if (!request.writableFinished) request.destroy();
        resolve({ status: response.statusCode ?? 0, body: bytes });
      }, reject);
    });
    request.end(body); // a string, which Node sends together with the headers
  });
  return { request, answer, hasResponse: () => responded };
}
