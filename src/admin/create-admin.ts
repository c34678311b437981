import type { IncomingMessage, ServerResponse } from "node:http";
import { loggerOf } from "../base/logger.js";
import type { Route } from "../base/node-http.js";
import { type PlainRequest, type PlainRoute, respondPlainly, webRoute } from "../base/plain-http.js";
import { safeReason } from "../base/safe-reason.js";
import { withDeadline } from "../queue/store-deadline.js";
import { bearerTokens } from "../service/http/bearer-tokens.js";
import { type AdminOptions, checkAdminOptions } from "./admin-options.js";
import type { AdminCall, AdminRoute } from "./admin-route.js";
import { adminRoutes } from "./admin-routes.js";
import { adminTokens } from "./admin-tokens.js";
import { type FoundRoutes, pathBehindBase, routeFinder } from "./find-route.js";
import { logEnding } from "./log-ending.js";
import { operatorOf } from "./operator-of.js";
import { pageResponse } from "./page-response.js";
import { type RequestFields, readRequest } from "./read-request.js";
import { refusedCall } from "./refused-call.js";
import { type RequestKind, requestLimits } from "./request-limits.js";
import { type Ended, type Ending, adminResponses as responses } from "./responses.js";
import { healthPath } from "./routes/app-routes.js";
import { tenantStores } from "./tenant-stores.js";

export interface Admin {
  /** For platforms that have the parts of a request. */
  readonly respond: PlainRoute;
  /** For hosts of the web's `Request` and `Response`. */
  readonly fetch: Route;
  /** For `createServer` of node:http. */
  readonly listener: (incoming: IncomingMessage, outgoing: ServerResponse) => void;
}

/**
 * The diagnostics API and the admin page, at `/_oncebox`. Does no I/O until it is called.
 *
 * @example
 * const admin = createAdmin({ stores: { inbox, outbox }, tokens: () => readTokens() });
 * createServer(admin.listener).listen(8080);
 */
export function createAdmin(options: AdminOptions): Admin {
  const settings = checkAdminOptions(options);
  const { clock = () => new Date(), callMs, tokens } = settings;
  const logger = loggerOf(options.logger);
  const findToken = bearerTokens(
    tokens,
    {
      fetchMs: callMs,
      maxAgeMs: settings.tokensMaxAgeMs,
      clock,
      onStale: () => logger.warn("the admin tokens could not be refreshed; the last ones are used", {}),
    },
    adminTokens,
  );
  const limits = requestLimits({ ...settings, clock });
  const findRoutes = routeFinder(adminRoutes(options));
  const storesOf = tenantStores(options);

  /** Undefined: the request may go on. */
  const limited = (kind: RequestKind): Ending | undefined =>
    limits.take(kind) ? undefined : responses.tooMany(limits.secondsLeft());

  const run = async (route: AdminRoute, { fields, tenant }: RequestFields, by: string): Promise<Ended> => {
    let known: string | undefined; // a tenant that does not exist is no name for the log: it may be a pasted token
    const ending = await withDeadline(callMs, "The database", async (signal) => {
      const call: AdminCall = { by, signal };
      const stores = route.on === "app" ? undefined : await storesOf(tenant);
      if (stores !== undefined && "refusal" in stores) return responses.answer(stores.refusal);
      known = stores && tenant;
      try {
        const answer =
          route.on === "app" ? await route.run(fields, call) : await route.run(stores!.value, fields, call);
        return responses.answer(answer);
      } catch (error) {
        const refused = refusedCall(error, route);
        if (refused === undefined) throw error;
        return responses.answer(refused);
      }
    }).catch(unavailable);
    return { ending, by, tenant: known };
  };

  /** A load balancer asks for the health without a token, and learns that the process answers, whatever others ask. */
  const withoutToken = ({ path }: AdminRoute): Ending =>
    path === healthPath
      ? responses.answer({ ok: { status: "ok" } })
      : (limited("without token") ?? responses.unauthorized());

  /** Without the right token nothing is read, neither of the body nor of a database. */
  const authorised = async (request: PlainRequest, found: FoundRoutes, route: AdminRoute): Promise<Ended> => {
    const authorization = request.headers.get("authorization");
    const client = request.client ?? "unknown";
    if (authorization === null) return { ending: withoutToken(route) };
    const token = await findToken(authorization);
    if (token === undefined) {
      // Only wrong tokens are turned away: operators may share an address with whoever guesses, for example that of a proxy.
      if (limits.isBlocked(client)) return { ending: responses.tooMany(limits.secondsLeft()) };
      limits.failed(client);
      return { ending: limited("without token") ?? responses.unauthorized() };
    }
    const by = operatorOf(request, token);
    if ("refusal" in by) return { ending: responses.badRequest(by.refusal) };
    const tooMany = limited("with token");
    if (tooMany !== undefined) return { ending: tooMany, by: by.value };
    const read = await readRequest(request, route, found);
    if ("refusal" in read) return { ending: responses.badRequest(read.refusal), by: by.value };
    return run(route, read.value, by.value);
  };

  const end = async (request: PlainRequest): Promise<Ended> => {
    const path = pathBehindBase(request.path);
    const page = path === undefined || !isRead(request) ? undefined : pageResponse(request.path, path);
    if (page !== undefined) return { ending: page, route: "page" };
    const found = path === undefined ? undefined : findRoutes(path);
    if (found === undefined) return { ending: limited("without token") ?? responses.notFound() };
    const allow = [...found.byMethod.keys(), "OPTIONS"].join(", ");
    if (request.method === "OPTIONS") return { ending: limited("without token") ?? responses.options(allow) };
    const route = found.byMethod.get(request.method);
    if (route === undefined) return { ending: limited("without token") ?? responses.methodNotAllowed(allow) };
    return { route: `${route.method} ${route.path}`, ...(await authorised(request, found, route)) };
  };

  const respond: PlainRoute = async (request) => {
    const ended = await end(request).catch((error) => ({ ending: unavailable(error) }));
    logEnding(logger, ended);
    return ended.ending.response;
  };

  const failed = (error: unknown) => logger.error("request failed", { error: safeReason(error) });
  return {
    respond,
    fetch: webRoute(respond),
    listener: (incoming, outgoing) => void respondPlainly(incoming, outgoing, respond, failed),
  };
}

const isRead = ({ method }: PlainRequest): boolean => method === "GET" || method === "HEAD";

const unavailable = (error: unknown): Ending => responses.unavailable(safeReason(error));
