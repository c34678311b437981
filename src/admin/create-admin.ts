import type { IncomingMessage, ServerResponse } from "node:http";
import { type LoggerOption, loggerOf, safeReason } from "../base/logger.js";
import type { Route } from "../base/node-http.js";
import { type PlainRequest, type PlainRoute, respondPlainly, webRoute } from "../base/plain-http.js";
import { withDeadline } from "../base/timers.js";
import { ArgumentRangeError, InvalidArgumentError } from "../errors.js";
import type { Inbox } from "../inbox/inbox.js";
import { type OperatedStores, withOperators } from "../operators/operators-of.js";
import type { Outbox } from "../outbox/outbox.js";
import { nameProblem, refuseUnknown, requireDuration } from "../queue/arguments.js";
import { bearerTokens } from "../service/http/bearer-tokens.js";
import type { Secrets } from "../webhooks/schemes/secret-keys.js";
import { adminTokens, operatorOf, type RequestKind, requestLimits } from "./access.js";
import { pageFiles } from "./page-files.js";
import {
  type Answer,
  adminResponses,
  type Ended,
  type Ending,
  logEnding,
  adminResponses as responses,
} from "./responses.js";
import { adminRoutes, healthPath } from "./routes.js";
import {
  type AdminCall,
  type AdminRoute,
  type FoundRoutes,
  pathBehindBase,
  type RequestFields,
  readRequest,
  routeFinder,
} from "./routing.js";

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
    const page = path === undefined || !isRead(request) ? undefined : await pageResponse(request.path, path);
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

/** The settings of the diagnostics API that do not depend on where it runs. */
export interface AdminSettings {
  /** How long a request may wait for the database, and for the secret store, before the answer is 503. 10 s by default. */
  readonly callMs?: number;
  /** How long fetched tokens are used before they are fetched again. 5 minutes by default. */
  readonly tokensMaxAgeMs?: number;
  /** Requests that one instance answers in a minute; those without a token are counted apart. 1,200 by default. */
  readonly requestsPerMinute?: number;
}

export interface AdminOptions extends AdminSettings {
  /** The queues of one database. */
  readonly stores?: AdminStores;
  /** Instead of `stores`: the queues of many tenants. */
  readonly tenants?: AdminTenants;
  /** All tokens that are valid at present, each `name:secret`, or functions that fetch them. The name is recorded. */
  readonly tokens: Secrets;
  readonly logger?: LoggerOption;
  /** The clock by which fetched tokens grow old and minutes are counted, for tests. */
  readonly clock?: () => Date;
}

export const adminDefaults = {
  callMs: 10_000,
  tokensMaxAgeMs: 5 * 60_000,
  requestsPerMinute: 1_200,
} as const;

const known = ["stores", "tenants", "tokens", "logger", "clock", ...Object.keys(adminDefaults)];

/** Returns the options with the defaults filled in. */
function checkAdminOptions(options: AdminOptions) {
  refuseUnknown(options, known, "admin");
  const settings = { ...adminDefaults, ...options };
  for (const name of ["callMs", "tokensMaxAgeMs"] as const) requireDuration(settings[name], name);
  const { requestsPerMinute, stores, tenants } = settings;
  if (!Number.isSafeInteger(requestsPerMinute) || requestsPerMinute < 1)
    throw new ArgumentRangeError(
      `requestsPerMinute must be a whole number, 1 or more, not ${String(requestsPerMinute)}.`,
    );
  if ((stores === undefined) === (tenants === undefined))
    throw new InvalidArgumentError("admin: give either stores or tenants.");
  return settings;
}

/** The queues of one database. */
export interface AdminStores {
  readonly inbox: Inbox;
  readonly outbox: Outbox;
}

/** The queues of many tenants: what `createTenantStores` of `oncebox/tenants` returns, for example. */
export interface AdminTenants {
  /** The ids of all tenants. */
  list(): Promise<readonly string[]>;
  /** Undefined for an unknown tenant. */
  find(id: string): Promise<AdminStores | undefined>;
  /** Whether the dispatcher of this process leaves the tenant alone, where this process has one. */
  isQuarantined?(id: string): boolean;
}

type Found = { readonly value: OperatedStores } | { readonly refusal: Answer };

/** Finds the stores of the tenant that a request names, which an app without tenants refuses. */
function tenantStores({
  stores,
  tenants,
}: Pick<AdminOptions, "stores" | "tenants">): (tenant: string | undefined) => Promise<Found> {
  return async (tenant) => {
    if (tenants === undefined)
      return tenant === undefined
        ? { value: withOperators(stores!) }
        : refused("InvalidField", "tenant is given, and this app has no tenants.");
    if (tenant === undefined) return refused("MissingField", "tenant is missing: this app has tenants.");
    if (nameProblem(tenant) !== undefined)
      return refused("InvalidField", "tenant is not the id of a tenant.");
    const found = await tenants.find(tenant);
    return found === undefined
      ? { refusal: { notFound: "There is no such tenant." } }
      : { value: withOperators(found) };
  };
}

const refused = (code: "InvalidField" | "MissingField", message: string): Found => ({
  refusal: { badRequest: { code, message, field: "tenant" } },
});

/**
 * What a store refuses although the fields are right: a message that is not dead, an operation that is unknown. Undefined
 * for a failure.
 */
function refusedCall(error: unknown, { method }: AdminRoute): Answer | undefined {
  const { code, message } = Object(error) as { readonly code?: unknown; readonly message?: unknown };
  if (code === "ONCEBOX_INVALID_ARGUMENT" || code === "ONCEBOX_ARGUMENT_RANGE")
    return { badRequest: { code: "InvalidField", message: String(message), field: "request" } };
  // Of a read it can only mean that the store is closed, or badly configured.
  return code === "ONCEBOX_INVALID_OPERATION" && method === "POST"
    ? { conflict: String(message) }
    : undefined;
}

/** The page loads its own files and nothing else, and no other page may frame it. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const headersOf = (type: string) => ({
  "content-type": `${type}; charset=utf-8`,
  "content-security-policy": contentSecurityPolicy,
  "x-frame-options": "DENY", // for browsers that do not know frame-ancestors
  "referrer-policy": "no-referrer",
});

/**
 * The page and its two files, which hold no data. Undefined for any other path. The page is served with and without a slash
 * at its end, because a gateway may take only one of them.
 */
async function pageResponse(path: string, behindBase: string): Promise<Ending | undefined> {
  switch (behindBase) {
    case "": {
      const folder = path.endsWith("/") ? "" : "_oncebox/";
      const html = (await pageFiles()).html.replaceAll("./page.", `${folder}page.`);
      return adminResponses.file(html, headersOf("text/html"));
    }
    case "page.js":
      return adminResponses.file((await pageFiles()).js, headersOf("text/javascript"));
    case "page.css":
      return adminResponses.file((await pageFiles()).css, headersOf("text/css"));
    default:
      return undefined;
  }
}
