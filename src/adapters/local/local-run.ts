import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { AppDefinition } from "../../app/app-definition.js";
import { appStats } from "../../app/app-stats.js";
import { type App, createApp } from "../../app/create-app.js";
import { timeBudget } from "../../base/budget.js";
import type { Logger } from "../../base/logger.js";
import { safeReason } from "../../base/safe-reason.js";
import type { Environment } from "../../config/environment.js";
import type { SecretResolver } from "../../config/secret-reference.js";
import { sendResponse, toRequest } from "./node-http.js";
import { type Repeating, repeating } from "./repeating.js";

export interface LocalRunOptions {
  readonly environment: Environment;
  readonly host?: string;
  readonly logger?: Logger;
  readonly resolveSecret?: SecretResolver;
  /** The time of one dispatch, as a function would have it: 60 s by default. */
  readonly functionMs?: number;
  readonly dispatchEveryMs?: number;
  readonly reapEveryMs?: number;
  readonly cleanupEveryMs?: number;
  /** How long a stop waits for requests that are on their way: 10 s by default, longer than any answer takes. */
  readonly stopMs?: number;
}

export interface LocalRun {
  readonly app: App;
  readonly url: string;
  /** No new requests; what runs is finished and settled; the database is closed. */
  stop(): Promise<void>;
}

/** The functions on this machine: webhooks by HTTP, timers for the rest, the schema brought up to date first. */
export async function startLocalRun(definition: AppDefinition, options: LocalRunOptions): Promise<LocalRun> {
  const { environment, host = "127.0.0.1", functionMs = 60_000, stopMs = 10_000 } = options;
  let dispatching: Repeating | undefined;
  const app = await createApp(definition, {
    environment,
    wakeUp: { wake: async () => dispatching?.wake() },
    ...(options.logger === undefined ? {} : { logger: options.logger }),
    ...(options.resolveSecret === undefined ? {} : { resolveSecret: options.resolveSecret }),
  });
  try {
    await app.migrate();
    const server = createServer((incoming, outgoing) => void answer(app, incoming, outgoing));
    const url = await listening(server, environment.port, host);
    const job = (name: "dispatch" | "reap" | "cleanup") => async (signal: AbortSignal) => {
      try {
        await app[name](timeBudget(functionMs, signal));
      } catch (error) {
        if (!signal.aborted) app.logger.error(`${name} failed`, { error: safeReason(error) });
      }
    };
    dispatching = repeating(options.dispatchEveryMs ?? 1_000, job("dispatch"));
    const timers = [
      dispatching,
      repeating(options.reapEveryMs ?? 60_000, job("reap")),
      repeating(options.cleanupEveryMs ?? 3_600_000, job("cleanup")),
    ];
    return {
      app,
      url,
      async stop() {
        await Promise.all([closed(server, stopMs), ...timers.map((timer) => timer.stop())]);
        await app.close();
      },
    };
  } catch (error) {
    await app.close();
    throw error;
  }
}

async function answer(app: App, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const gone = new AbortController();
  outgoing.once("close", () => gone.abort());
  let request: Request;
  try {
    request = toRequest(incoming, gone.signal);
  } catch {
    outgoing.writeHead(400).end(); // a host, a path or a method that no web request can have
    return;
  }
  try {
    await sendResponse(await route(app, request), outgoing);
  } catch (error) {
    if (gone.signal.aborted) return; // nobody to answer
    app.logger.error("request failed", { error: safeReason(error) });
    if (!outgoing.headersSent) outgoing.writeHead(500);
    outgoing.end();
  }
}

async function route(app: App, request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  return pathname === "/status" ? Response.json(await appStats(app)) : app.webhook(request);
}

const listening = (server: Server, port: number, host: string): Promise<string> =>
  new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      const { port: bound } = server.address() as AddressInfo;
      resolve(`http://${host.includes(":") ? `[${host}]` : host}:${bound}`);
    });
  });

/** Requests on their way are answered; one that is still being sent after `longestMs` is cut off, and nothing of it stored. */
async function closed(server: Server, longestMs: number): Promise<void> {
  const ended = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), longestMs);
  await ended;
  clearTimeout(timer);
}
