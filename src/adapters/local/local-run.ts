import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, isIP } from "node:net";
import { type App, appDatabases, backedUpDatabases, createApp } from "../../app/create-app.js";
import type { AppDefinition } from "../../app/definition.js";
import { appStats } from "../../app/stats.js";
import { type Budget, timeBudget } from "../../base/budget.js";
import { type Repeating, repeating } from "../../base/concurrency.js";
import { omitUndefined } from "../../base/defined.js";
import { type LoggerOption, safeReason } from "../../base/logger.js";
import type { Environment } from "../../config/environment.js";
import type { SecretResolver } from "../../config/secret-reference.js";
import { wakeUps } from "../../dispatch/worker.js";
import { closeServer, listening, respondTo } from "../../http/node.js";
import { type Backup, type BackupOptions, createBackup } from "../../sql/sqlite/backup/create-backup.js";

export interface LocalRunOptions {
  readonly environment: Environment;
  readonly host?: string;
  readonly logger?: LoggerOption;
  readonly resolveSecret?: SecretResolver;
  /** A second by default. */
  readonly dispatchEveryMs?: number;
  /** Backs up the SQLite databases of the app: every hour, kept for 7 days by default. */
  readonly backup?: Omit<BackupOptions, "logger">;
  /** How long `stop` waits for running requests: 10 s by default, longer than any response takes. */
  readonly stopMs?: number;
}

/** The time budget of one job, as a function would have it. */
const functionMs = 60_000;

export interface LocalRun {
  readonly app: App;
  readonly url: string;
  /** Refuses new requests, waits for running requests and jobs, and closes the database. */
  stop(): Promise<void>;
}

/** Runs the app's functions on this machine: webhooks, the service and the diagnostics API by HTTP, the others by timers. It migrates the schema first. */
export async function startLocalRun(definition: AppDefinition, options: LocalRunOptions): Promise<LocalRun> {
  const { environment, host = "127.0.0.1", stopMs = 10_000 } = options;
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
    ...omitUndefined({ logger: options.logger, resolveSecret: options.resolveSecret }),
  });
  try {
    await app.migrate();
    const backup = options.backup && (await appBackup(app, options.backup));
    const failed = (error: unknown) => app.logger.error("request failed", { error: safeReason(error) });
    const server = createServer((incoming, outgoing) => {
      const foreign = foreignRequest(incoming, host);
      if (foreign !== undefined) {
        app.logger.warn("request refused", { reason: `its ${foreign} is not this run's` });
        outgoing.writeHead(403).end();
        return;
      }
      if (app.service !== undefined && incoming.url?.startsWith("/v1/"))
        app.service.listener(incoming, outgoing);
      else if (app.admin !== undefined && isAdminPath(incoming.url)) app.admin.listener(incoming, outgoing);
      else void respondTo(incoming, outgoing, (request) => route(app, request), failed);
    });
    await listening(server, { port: environment.port, host });
    const { port } = server.address() as AddressInfo;
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
      repeating(60_000, job("reap", app.reap)),
      repeating(3_600_000, job("cleanup", app.cleanup)),
    ];
    backup?.start();
    return {
      app,
      url: `http://${host.includes(":") ? `[${host}]` : host}:${port}`,
      async stop() {
        await Promise.all([
          closeServer(server, stopMs),
          backup?.stop(),
          ...timers.map((timer) => timer.stop()),
        ]);
        await app.close();
      },
    };
  } catch (error) {
    await app.close();
    throw error;
  }
}

const isAdminPath = (url = ""): boolean => /^\/_oncebox(\/|\?|$)/.test(url);

/** Fails at once where no database of the app can be backed up. */
async function appBackup(app: App, options: Omit<BackupOptions, "logger">): Promise<Backup> {
  const current = async () => backedUpDatabases(await appDatabases(app)).databases;
  await current();
  return createBackup(current, { ...options, logger: app.logger });
}

async function route(app: App, request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  if (pathname !== "/status") return app.webhook(request);
  if (request.method !== "GET" && request.method !== "HEAD")
    return new Response(null, { status: 405, headers: { allow: "GET, HEAD" } });
  return Response.json(await appStats(app), { headers: { "cache-control": "no-store" } });
}

/**
 * Says why a request to the local run is refused, or undefined. A web page in the developer's browser can send requests
 * here, and a name of the page's own that is pointed at this machine would let it read the responses. So the host must be an
 * address, localhost or the host that the run was given, and a request of another origin is refused. A webhook may come
 * through a tunnel, with the tunnel's host: its signature proves it.
 */
export function foreignRequest({ headers, url = "" }: IncomingMessage, ownHost: string): string | undefined {
  const { host = "", origin } = headers;
  if (origin !== undefined && origin.toLowerCase() !== `http://${host.toLowerCase()}`) return "origin";
  if (url.startsWith("/webhooks/")) return undefined;
  const target = URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : "";
  const name = target.replace(/^\[(.*)\]$/, "$1");
  const isOwn = isIP(name) !== 0 || name === "localhost" || name === ownHost.toLowerCase();
  return host !== "" && isOwn ? undefined : "host";
}
