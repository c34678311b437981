import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { foreignRequest } from "../../adapters/local/refuse-foreign.js";
import { respondTo } from "../../base/node-http.js";
import { closeServer, listening as listenAt } from "../../base/node-server.js";
import { openBodies } from "../../base/open-bodies.js";
import { readBody } from "../../base/read-body.js";
import { webhookDefaults } from "../../webhooks/route-options.js";
import { type Listening, type Report, receiveAndReport } from "./receive-and-report.js";

export interface ListenOptions extends Listening {
  readonly host: string;
  readonly port: number;
  show(report: Report): void;
  failed(error: unknown): void;
}

/** Receives webhooks at this machine. Returns the port, and what stops it. */
export async function startListening(options: ListenOptions): Promise<{
  readonly port: number;
  stop(): Promise<void>;
}> {
  const { host, port, show, failed, ...listening } = options;
  const { maxBodyBytes, bodyMs, maxUnverifiedBytes } = webhookDefaults;
  const among = openBodies({ maxBytes: maxUnverifiedBytes });
  const route = async (request: Request): Promise<Response> => {
    const body = await readBody(request, { maxBytes: maxBodyBytes, withinMs: bodyMs, among });
    if (typeof body === "string") return new Response(null, { status: 413 });
    const { response, report } = await receiveAndReport(request, body, listening);
    show(report);
    return response;
  };
  const server = createServer((incoming, outgoing) => {
    if (foreignRequest(incoming, host) !== undefined) outgoing.writeHead(403).end();
    else void respondTo(incoming, outgoing, route, failed);
  });
  await listenAt(server, { port, host });
  return { port: (server.address() as AddressInfo).port, stop: () => closeServer(server, 1_000) };
}
