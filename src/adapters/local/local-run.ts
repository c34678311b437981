import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { appDatabases, backedUpDatabases } from "../../app/app-databases.js";
import type { AppDefinition } from "../../app/app-definition.js";
import { appStats } from "../../app/app-stats.js";
import { type App, createApp } from "../../app/create-app.js";
import { type Budget, timeBudget } from "../../base/budget.js";
import { defined } from "../../base/defined.js";
import type { Logger } from "../../base/logger.js";
import { safeReason } from "../../base/safe-reason.js";
import type { Environment } from "../../config/environment.js";
import type { SecretResolver } from "../../config/secret-reference.js";
import { wakeUps } from "../../dispatch/wake-ups.js";
import { type Backup, type BackupOptions, createBackup } from "../../sql/sqlite/backup/create-backup.js";
import { requestFromNode, sendResponse } from "./node-http.js";
import { type Repeating, repeating } from "./repeating.js";

export interface LocalRunOptions {
  readonly environment: Environment;
  readonly host?: string;
  readonly logger?: Logger;
  readonly resolveSecret?: SecretResolver;
  /** The time budget of one job, as a function would have it: 60 s by default. */
  readonly functionMs?: number;
  readonly dispatchEveryMs?: number;
  readonly reapEveryMs?: number;
  readonly cleanupEveryMs?: number;
  /** Backs up the SQLite databases of the app: every hour, kept for 7 days by default. */
  readonly backup?: Omit<BackupOptions, "logger">;
  /** How long `stop` waits for running requests: 10 s by default, longer than any response takes. */
  readonly stopMs?: number;
}

export interface LocalRun {
  readonly app: App;
  readonly url: string;
  /** Refuses new requests, waits for running requests and jobs, and closes the database. */
  stop(): Promise<void>;
}

/** Runs the app's functions on this machine: webhooks by HTTP, the others by timers. It migrates the schema first. */
export async function startLocalRun(definition: AppDefinition, options: LocalRunOptions): Promise<LocalRun> {
  const { environment, host = "127.0.0.1", functionMs = 60_000, stopMs = 10_000 } = options;
  let dispatching: Repeating | undefined;
  const wakes = wakeUps();
  const app = await createApp(definition, {
    environment,
    wakeUp: {
      async wake() {
        wakes.wake(); // the run that is under way polls at once
        dispatching?.wake();
      },
    },
    ...defined({ logger: options.logger, resolveSecret: options.resolveSecret }),
  });
  try {
    await app.migrate();
    const backup = options.backup && (await appBackup(app, options.backup));
    const server = createServer((incoming, outgoing) => void respond(app, incoming, outgoing));
    const url = await listening(server, environment.port, host);
    const job = (name: string, run: (budget: Budget) => Promise<unknown>) => async (signal: AbortSignal) => {
      try {
        await run(timeBudget(functionMs, signal));
      } catch (error) {
        if (!signal.aborted) app.logger.error(`${name} failed`, { error: safeReason(error) });
      }
    };
    const dispatch = (budget: Budget) => app.dispatch(budget, { onWake: wakes.subscribe });
    dispatching = repeating(options.dispatchEveryMs ?? 1_000, job("dispatch", dispatch));
    const timers = [
      dispatching,
      repeating(options.reapEveryMs ?? 60_000, job("reap", app.reap)),
      repeating(options.cleanupEveryMs ?? 3_600_000, job("cleanup", app.cleanup)),
    ];
    backup?.start();
    return {
      app,
      url,
      async stop() {
        await Promise.all([closed(server, stopMs), backup?.stop(), ...timers.map((timer) => timer.stop())]);
        await app.close();
      },
    };
  } catch (error) {
    await app.close();
    throw error;
  }
}

/** Fails at once where no database of the app can be backed up. */
async function appBackup(app: App, options: Omit<BackupOptions, "logger">): Promise<Backup> {
  const current = async () => backedUpDatabases(await appDatabases(app)).databases;
  await current();
  return createBackup(current, { ...options, logger: app.logger });
}

async function respond(app: App, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const gone = new AbortController();
  outgoing.once("close", () => gone.abort());
  let request: Request;
  try {
    request = requestFromNode(incoming, gone.signal);
  } catch {
    outgoing.writeHead(400).end(); // the host, path or method is not valid
    return;
  }
  try {
    await sendResponse(await route(app, request), outgoing);
  } catch (error) {
    if (gone.signal.aborted) return; // the client has disconnected
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

/** Waits for running requests. A request that is not complete after `stopMs` is cut off, and nothing of it is stored. */
async function closed(server: Server, stopMs: number): Promise<void> {
  const ended = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), stopMs);
  await ended;
  clearTimeout(timer);
}
