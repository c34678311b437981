import * as http from "node:http";
import * as https from "node:https";
import { collectBytes } from "../../http/body.js";
import { optionalCount, requireDuration } from "../../queue/arguments.js";
import type { Envelope } from "../envelope.js";
import { attempt } from "../open-envelope.js";
import { serialiseEnvelope } from "../sign-envelope.js";
import { httpSchemes, httpTarget } from "./address.js";
import {
  checkedResponse,
  checkedTransportOptions,
  malformedAcknowledgement,
  openCalls,
  reasonOf,
  refusalOf,
  signedFor,
  type Transport,
  TransportError,
  type TransportOptions,
  type TransportResponse,
} from "./transport.js";

/** Options of the transport by HTTP. */
export interface HttpTransportOptions extends TransportOptions {
  /** Connections to one destination at most: 50 by default, one for each message of a batch. */
  readonly maxConnections?: number;
  /** An unused connection is closed after this time, or earlier if the receiver asks for it: 60 s by default. */
  readonly idleMs?: number;
}

const defaults = { maxConnections: 50, idleMs: 60_000 } as const;

/**
 * Sends messages by HTTP: over TCP (`http:`, `https:`), Unix sockets (`unix:`) and Windows pipes (`pipe:`). Connections
 * are kept open between messages.
 *
 * @example
 * const transport = httpTransport({ timeoutMs: 10_000 });
 */
export function httpTransport(options: HttpTransportOptions = {}): Transport {
  const checked = checkedTransportOptions(options, ["maxConnections", "idleMs"], "httpTransport");
  const { timeoutMs, maxResponseBytes, maxConnections, idleMs, tls } = { ...defaults, ...checked };
  optionalCount(maxConnections, "httpTransport: maxConnections", 1);
  requireDuration(idleMs, "httpTransport: idleMs");
  const agentOptions = { keepAlive: true, maxSockets: maxConnections, timeout: idleMs };
  const plain: HttpClient = { request: http.request, agent: new http.Agent(agentOptions) };
  const secure: HttpClient = {
    request: (target) => https.request({ ...tls, ...target }),
    agent: new https.Agent({ ...agentOptions, ...tls }),
  };
  const calls = openCalls(timeoutMs);

  return {
    schemes: httpSchemes,
    check: (address) => void httpTarget(address),
    async send(message, destination, { signal: outer }) {
      const { isSecure, options: target, shown } = httpTarget(destination.address);
      const receiver = `${destination.serviceId} at ${shown}`;
      return calls.run(receiver, outer, async (signal) => {
        const settings = { ...(isSecure ? secure : plain), maxResponseBytes, signal, receiver };
        const request = serialiseEnvelope(signedFor(message, destination));
        const { status, body } = await postHttp(target, request, settings);
        return readAcknowledgement(status, body, receiver, message);
      });
    },
    async close() {
      await calls.close();
      for (const { agent } of [plain, secure]) agent.destroy();
    },
  };
}

interface HttpClient {
  readonly request: (options: http.RequestOptions) => http.ClientRequest;
  readonly agent: http.Agent;
}

interface PostSettings extends HttpClient {
  readonly maxResponseBytes: number;
  readonly signal: AbortSignal;
  /** The receiver, for errors. */
  readonly receiver: string;
}

interface HttpAnswer {
  readonly status: number;
  readonly body: Uint8Array;
}

/**
 * Posts a body and reads the whole response. Redirects are not followed. A receiver may close a kept connection while
 * the request is on its way, and after a frozen function thaws all kept connections are dead. The request is then sent
 * again at once on a new connection: receivers deduplicate, so that is safe.
 */
async function postHttp(
  target: http.RequestOptions,
  body: string,
  settings: PostSettings,
): Promise<HttpAnswer> {
  const { agent, signal, receiver } = settings;
  const first = startPost(target, body, settings, agent);
  try {
    return await first.answer.catch((error: unknown) => {
      const isStale = first.request.reusedSocket && /^(ECONNRESET|EPIPE)$/.test(reasonOf(error));
      if (!isStale || first.hasResponse() || signal.aborted) throw error;
      return startPost(target, body, settings, false).answer; // no agent: a connection for this request only
    });
  } catch (error) {
    if (error instanceof TransportError) throw error;
    throw new TransportError(
      `${receiver} could not be reached, or ended the connection: ${reasonOf(error)}.`,
    );
  }
}

function startPost(
  target: http.RequestOptions,
  body: string,
  { request: open, signal, maxResponseBytes, receiver }: PostSettings,
  agent: http.Agent | false,
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
      collectBytes(response, maxResponseBytes).then((bytes) => {
        if (bytes === "too large") {
          reject(new TransportError(`${receiver} returned more than ${maxResponseBytes} bytes.`));
          return void request.destroy();
        }
        // A receiver may respond before it has the whole body. It might never read the rest.
        if (!request.writableFinished) request.destroy();
        resolve({ status: response.statusCode ?? 0, body: bytes });
      }, reject);
    });
    request.end(body); // a string, which Node sends together with the headers
  });
  return { request, answer, hasResponse: () => responded };
}

/** Reads what a receiver returned by HTTP. Throws where it is no acknowledgement; then the message is sent again. */
function readAcknowledgement(
  status: number,
  body: Uint8Array,
  receiver: string,
  message: Envelope,
): TransportResponse {
  const refusal = refusalOf(status, receiver);
  if (refusal !== undefined) return refusal;
  const parsed = status === 200 || status >= 500 ? parsedObject(body) : undefined;
  if (status === 200 && parsed === undefined) throw malformedAcknowledgement(receiver);
  const isAnswer = parsed !== undefined && (status === 200 || parsed.acknowledged === false);
  if (isAnswer) return checkedResponse(parsed, receiver, message);
  const redirect = status >= 300 && status < 400 ? ", a redirect, which is not followed" : "";
  throw new TransportError(`${receiver} responded with status ${status}${redirect}.`);
}

function parsedObject(body: Uint8Array): Readonly<Record<string, unknown>> | undefined {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const value = attempt(() => JSON.parse(decoder.decode(body)) as unknown);
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : undefined;
}
