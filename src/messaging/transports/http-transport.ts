import type { Agent, RequestOptions } from "node:http";
import { memoisePromise } from "../../base/memoise-promise.js";
import { optionalCount, requireDuration } from "../../queue/arguments.js";
import type { Transport } from "../transport.js";
import { readAcknowledgement } from "./acknowledgement.js";
import { httpSchemes, httpTarget } from "./http-target.js";
import type { MessageBody } from "./message-body.js";
import { openCalls } from "./open-calls.js";
import { postHttp } from "./post-http.js";
import { checkedOptions, type TransportOptions } from "./transport-options.js";

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
 * const transport = httpTransport(body, { timeoutMs: 10_000 });
 */
export function httpTransport(body: MessageBody, options: HttpTransportOptions = {}): Transport {
  const checked = checkedOptions(options, ["maxConnections", "idleMs"], "httpTransport");
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
        const { status, body: answer } = await postHttp(target, body(message, destination), settings);
        return readAcknowledgement(status, answer, receiver, message);
      });
    },
    async close() {
      await calls.close();
      for (const agent of agents) agent.destroy();
    },
  };
}
