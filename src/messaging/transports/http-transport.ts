import type { Agent, ClientRequest, RequestOptions } from "node:http";
import { memoisePromise } from "../../base/concurrency.js";
import { collectBytes } from "../../http/body.js";
import { optionalCount, requireDuration } from "../../queue/arguments.js";
import { serialiseEnvelope } from "../sign-envelope.js";
import { httpSchemes, httpTarget } from "./address.js";
import {
  checkedTransportOptions,
  openCalls,
  readAcknowledgement,
  reasonOf,
  signedFor,
  type Transport,
  TransportError,
  type TransportOptions,
} from "./transport.js";

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
  const agents = new Set<Agent>();
  const kept = <T extends Agent>(agent: T): T => {
    agents.add(agent);
    return agent;
  };
  // Loaded at the first message: Node's TLS takes milliseconds of a cold start.
  const plain = memoisePromise(async () => {
    const { Agent, request } = await import("node:http");
    return { agent: kept(new Agent(agentOptions)), request };
  });
  const secure = memoisePromise(async () => {
    const { Agent, request } = await import("node:https");
    return {
      agent: kept(new Agent({ ...agentOptions, ...tls })),
      request: (target: RequestOptions) => request({ ...tls, ...target }),
    };
  });
  const calls = openCalls(timeoutMs);

  return {
    schemes: httpSchemes,
    check: (address) => void httpTarget(address),
    async send(message, destination, { signal: outer }) {
      const { isSecure, options: target, shown } = httpTarget(destination.address);
      const receiver = `${destination.serviceId} at ${shown}`;
      return calls.run(receiver, outer, async (signal) => {
        const client = await (isSecure ? secure() : plain());
        signal.throwIfAborted();
        const settings = { ...client, maxResponseBytes, signal, receiver };
        const request = serialiseEnvelope(signedFor(message, destination));
        const { status, body } = await postHttp(target, request, settings);
        return readAcknowledgement(status, body, receiver, message);
      });
    },
    async close() {
      await calls.close();
      for (const agent of agents) agent.destroy();
    },
  };
}

interface HttpAnswer {
  readonly status: number;
  readonly body: Uint8Array;
}

interface PostSettings {
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
async function postHttp(target: RequestOptions, body: string, settings: PostSettings): Promise<HttpAnswer> {
  const first = startPost(target, body, settings, settings.agent);
  try {
    return await first.answer;
  } catch (error) {
    const isStale = first.request.reusedSocket && /^(ECONNRESET|EPIPE)$/.test(reasonOf(error));
    if (!isStale || first.hasResponse() || settings.signal.aborted) throw postFailure(error, settings);
  }
  try {
    return await startPost(target, body, settings, false).answer; // no agent: a connection for this request only
  } catch (error) {
    throw postFailure(error, settings);
  }
}

const postFailure = (error: unknown, { receiver }: PostSettings): TransportError =>
  error instanceof TransportError
    ? error
    : new TransportError(`${receiver} could not be reached, or ended the connection: ${reasonOf(error)}.`);

function startPost(
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
