import type { IncomingMessage, ServerResponse } from "node:http";
import type { Budget } from "../base/async.js";
import { type Logger, safeReason } from "../base/logger.js";
import { type HostedRoute, nodeMiddleware, respondTo } from "../http/node.js";
import { type PlainRequest, plainRequest, toWebResponse } from "../http/plain.js";
import { dispatchRoute } from "./dispatch-route.js";
import type { AppJobs } from "./jobs.js";
import type { LimitedCalls } from "./limited-calls.js";
import type { OpenApp } from "./open-app.js";

/** What the host of a request can do, or knows of it. Next's second argument of a route is one, too. */
export interface FetchHost {
  /**
   * Keeps the function alive until a promise ends: `after` of Next, `waitUntil` of Vercel. Then a webhook is handled right
   * after its answer. A process that was started needs none.
   */
  waitUntil?(work: Promise<unknown>): void;
  /** The client's address. The diagnostics API counts wrong tokens by it. */
  readonly client?: string | undefined;
}

/** Serves a request. `host` has what only the host knows. */
export type AppFetch = (request: Request, host?: FetchHost) => Promise<Response>;

/** A listener of node:http, and middleware of Express, Connect and Nest. With `next`, requests for other paths go there. */
export type AppListener = (
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  next?: (error?: Error) => void,
) => void;

/** What an app serves, by the part of the path that comes first. A host or a gateway may have put a prefix before it. */
const bases =
  /\/(?:(?<webhooks>webhooks)\/[^/]|(?<service>v1)\/(?:inbox\/|openapi\.json$)|(?<admin>_oncebox)(?:\/|$)|(?<dispatch>dispatch)\/?$)/;

type Served = "webhooks" | "service" | "admin" | "dispatch";

/** What the app serves at a path, and whether the path begins with it. */
function servedAt(path: string): { readonly served: Served; readonly isFirst: boolean } | undefined {
  const match = bases.exec(path);
  if (match === null) return undefined;
  const [served] = Object.entries(match.groups!).find(([, base]) => base !== undefined)!;
  return { served: served as Served, isFirst: match.index === 0 };
}

interface Resident {
  /** Workers of this process handle what arrives. */
  isStarted(): boolean;
  wake(tenant?: string): void;
}

/** How requests reach an app. */
export function appHttp(
  app: OpenApp,
  jobs: AppJobs,
  calls: LimitedCalls,
  resident: Resident,
): { readonly fetch: AppFetch; readonly listener: AppListener } {
  const { logger, definition, environment } = app;
  const dispatchNow =
    definition.cron && dispatchRoute(app, jobs, definition.cron, () => calls.budgetOf("cron"));
  const routes = {
    service: jobs.service?.respond,
    admin: jobs.admin?.respond,
    dispatch: dispatchNow && ((request: PlainRequest) => calls.tracked(dispatchNow(request))),
  };
  const dispatchLater = afterWebhooks(jobs.dispatch, calls, logger);

  const fetch: AppFetch = async (request, host = {}) => {
    const url = new URL(request.url);
    const served = servedAt(url.pathname)?.served ?? "webhooks";
    const route = served === "webhooks" ? undefined : routes[served];
    if (route === undefined) {
      // Also for a path of nothing: the answer is 404 then, and the log says that there is no such source.
      const response = await jobs.webhook(request);
      if (response.ok && !resident.isStarted()) dispatchLater(host);
      return response;
    }
    const response = toWebResponse(await route(plainRequest(request, host.client)));
    // An operator may have made messages due.
    if (served === "admin" && request.method === "POST" && response.ok)
      resident.wake(url.searchParams.get("tenant") ?? undefined);
    return response;
  };
  const sources = Object.keys({ ...definition.sources, ...environment.sources });
  const isServed = (path: string): boolean => {
    const { served, isFirst = false } = servedAt(path) ?? {};
    if (served === undefined || !isFirst) return false; // `/orders/7/dispatch` is a route of somebody else's
    return served === "webhooks"
      ? sources.some((name) => path.split("/")[2] === encodeURIComponent(name))
      : routes[served] !== undefined;
  };
  return { fetch, listener: appListener(fetch, isServed, logger) };
}

/** @param isServed whether the app serves this path, below the one that it is mounted at; other middleware gets the rest */
function appListener(fetch: AppFetch, isServed: (path: string) => boolean, logger: Logger): AppListener {
  const route: HostedRoute = (request, client) => fetch(request, { client });
  const failed = (error: unknown) => logger.error("request failed", { error: safeReason(error) });
  const isFor = (_path: string, mounted: string): boolean => isServed(mounted);
  const middleware = nodeMiddleware({ route, isFor, failed, name: "app.listener" });
  return (incoming, outgoing, next) => {
    if (next === undefined) void respondTo(incoming, outgoing, route, failed);
    else middleware(incoming, outgoing, next);
  };
}

/**
 * Dispatches after the answer to a webhook, where the host keeps the function alive for that. While a run goes on, others
 * wait for it, because it is woken for their messages; then one of them looks for what it may have missed.
 */
export function afterWebhooks(
  dispatch: (budget: Budget) => Promise<unknown>,
  calls: LimitedCalls,
  logger: Logger,
): (host: FetchHost) => void {
  let current: Promise<void> | undefined;
  let latest: Budget; // of all who wait it has the most time left
  const run = (): Promise<void> => {
    current ??= dispatchOnce(latest).finally(() => {
      current = undefined;
    });
    return current;
  };
  const dispatchOnce = async (budget: Budget): Promise<void> => {
    try {
      await calls.tracked(dispatch(budget));
    } catch (error) {
      logger.error("dispatch failed", { error: safeReason(error) });
    }
  };
  return (host) => {
    if (host.waitUntil === undefined) return;
    latest = calls.budgetOf("waitUntil");
    host.waitUntil(current === undefined ? run() : current.then(run));
  };
}
