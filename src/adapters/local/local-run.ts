import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, isIP } from "node:net";
import { type App, createApp } from "../../app/app.js";
import type { AppDefinition } from "../../app/definition.js";
import { appDatabases, backedUpDatabases } from "../../app/jobs.js";
import { appStats } from "../../app/stats.js";
import { omitUndefined } from "../../base/defined.js";
import { type LoggerOption, safeReason } from "../../base/logger.js";
import type { Environment } from "../../config/environment.js";
import type { SecretResolver } from "../../config/secret-reference.js";
import { closeServer, type HostedRoute, listening, respondTo } from "../../http/node.js";
import { type Backup, type BackupOptions, createBackup } from "../../sql/sqlite/backup/create-backup.js";

export interface LocalRunOptions {
  readonly environment: Environment;
  readonly host?: string;
  readonly logger?: LoggerOption;
  readonly resolveSecret?: SecretResolver;
  /** The wait between two polls; a second by default. */
  readonly pollMs?: number;
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

/** Runs the app's functions on this machine: webhooks, the service and the diagnostics API by HTTP, the others by timers. It migrates the schema first. */
export async function startLocalRun(definition: AppDefinition, options: LocalRunOptions): Promise<LocalRun> {
  const { environment, host = "127.0.0.1", stopMs = 10_000 } = options;
  const app = await createApp(definition, {
    environment,
    ...omitUndefined({ logger: options.logger, resolveSecret: options.resolveSecret }),
  });
  try {
    await app.migrate();
    const backup = options.backup && (await appBackup(app, options.backup));
    const failed = (error: unknown) => app.logger.error("request failed", { error: safeReason(error) });
    const server = createServer((incoming, outgoing) => {
      const foreign = foreignRequest(incoming, host);
      if (foreign === undefined) return void respondTo(incoming, outgoing, routeOf(app), failed);
      app.logger.warn("request refused", { reason: `its ${foreign} is not this run's` });
      outgoing.writeHead(403).end();
    });
    await listening(server, { port: environment.port, host });
    const { port } = server.address() as AddressInfo;
    const { pollMs = 1_000 } = options;
    await app.start({ pollMs, idlePollMs: pollMs });
    backup?.start();
    return {
      app,
      url: `http://${host.includes(":") ? `[${host}]` : host}:${port}`,
      async stop() {
        await Promise.all([closeServer(server, stopMs), backup?.stop(), app.stop()]);
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

const routeOf =
  (app: App): HostedRoute =>
  async (request, client) => {
    if (new URL(request.url).pathname !== "/status") return app.fetch(request, { client });
    if (request.method !== "GET" && request.method !== "HEAD")
      return new Response(null, { status: 405, headers: { allow: "GET, HEAD" } });
    return Response.json(await appStats(app), { headers: { "cache-control": "no-store" } });
  };

/**
 * Says why a request to the local run is refused, or undefined. A web page in the developer's browser can send requests
 * here, and a name of the page's own that is pointed at this machine would let it read the responses. So the host must be an
 * address, localhost or the host that the run was given, and a request of another origin is refused. A webhook may come
 * through a tunnel, with the tunnel's host: its signature proves it.
 */
export function foreignRequest({ headers, url = "" }: IncomingMessage, ownHost: string): string | undefined {
  const { host = "", origin } = headers;
  if (origin !== undefined && origin.toLowerCase() !== `http://${host.toLowerCase()}`) return "origin";
  if (isWebhook(url)) return undefined;
  const target = URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : "";
  const name = target.replace(/^\[(.*)\]$/, "$1");
  const isOwn = isIP(name) !== 0 || name === "localhost" || name === ownHost.toLowerCase();
  return host !== "" && isOwn ? undefined : "host";
}

/** By the path as the app reads it: `/webhooks/../status` is `/status`, and `/webhooks//_oncebox` is no source's. */
const isWebhook = (url: string): boolean =>
  URL.canParse(url, "http://localhost") &&
  /^\/webhooks\/[^/]/.test(new URL(url, "http://localhost").pathname);
