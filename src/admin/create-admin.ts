import { type LoggerOption, loggerOf, safeReason } from "../base/logger.js";
import type { Secrets } from "../base/secrets.js";
import { withDeadline } from "../base/timers.js";
import { ArgumentRangeError, InvalidArgumentError } from "../errors.js";
import { bearerTokens } from "../http/bearer-tokens.js";
import type { PlainRequest } from "../http/plain.js";
import { type HttpHandlers, type HttpResult, httpHandlers } from "../http/results.js";
import { type PathNames, routeTable } from "../http/routes.js";
import type { Inbox } from "../inbox/inbox.js";
import { type OperatedStores, withOperators } from "../operators/operators-of.js";
import type { Outbox } from "../outbox/outbox.js";
import { nameProblem, refuseUnknown, requireDuration } from "../queue/arguments.js";
import { adminTokens, operatorOf, type RequestKind, requestLimits } from "./access.js";
import { pageFiles } from "./page-files.js";
import { type Answer, type AnsweredRequest, logRequest, adminResults as results } from "./responses.js";
import { adminRoutes } from "./routes.js";
import {
  type AdminCall,
  type AdminRoute,
  pathBehindBase,
  type RequestFields,
  readRequest,
} from "./routing.js";

/** The diagnostics API and the admin page. */
export type Admin = HttpHandlers;

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
  const limits = requestLimits(settings.requestsPerMinute, clock);
  const find = routeTable(adminRoutes(options));
  const storesOf = tenantStores(options);

  /** The result, unless there were too many requests of the kind. */
  const limited = (kind: RequestKind, result: HttpResult): HttpResult =>
    limits.take(kind) ? result : results.tooMany(limits.secondsLeft());

  const run = async (
    route: AdminRoute,
    { fields, tenant }: RequestFields,
    by: string,
  ): Promise<AnsweredRequest> => {
    let known: string | undefined; // a tenant that does not exist is no name for the log: it may be a pasted token
    const result = await withDeadline(callMs, "The database", async (signal) => {
      const call: AdminCall = { by, signal };
      const stores = route.on === "app" ? undefined : await storesOf(tenant);
      if (stores !== undefined && "refusal" in stores) return results.answer(stores.refusal);
      known = stores && tenant;
      try {
        const answer =
          route.on === "app" ? await route.run(fields, call) : await route.run(stores!.value, fields, call);
        return results.answer(answer);
      } catch (error) {
        const refused = refusedCall(error, route);
        if (refused === undefined) throw error;
        return results.answer(refused);
      }
    }).catch(unavailable);
    return { result, by, tenant: known };
  };

  /** Without the right token nothing is read, neither of the body nor of a database. */
  const authorised = async (
    request: PlainRequest,
    route: AdminRoute,
    names: PathNames,
  ): Promise<AnsweredRequest> => {
    const authorization = request.headers.get("authorization");
    const client = request.client ?? "unknown";
    if (authorization === null && route.withoutToken !== undefined)
      return { result: results.answer(route.withoutToken) };
    if (authorization === null) return { result: limited("without token", results.unauthorized()) };
    const token = await findToken(authorization);
    if (token === undefined) {
      // Only wrong tokens are turned away: operators may share an address with whoever guesses, for example that of a proxy.
      if (limits.isBlocked(client)) return { result: results.tooMany(limits.secondsLeft()) };
      limits.failed(client);
      return { result: limited("without token", results.unauthorized()) };
    }
    const by = operatorOf(request, token);
    if ("refusal" in by) return { result: results.badRequest(by.refusal) };
    if (!limits.take("with token")) return { result: results.tooMany(limits.secondsLeft()), by: by.value };
    const read = await readRequest(request, route, names);
    if ("refusal" in read) return { result: results.badRequest(read.refusal), by: by.value };
    return run(route, read.value, by.value);
  };

  const answered = async (request: PlainRequest): Promise<AnsweredRequest> => {
    const path = pathBehindBase(request.path);
    const page = path === undefined || !isRead(request) ? undefined : await pageResult(request.path, path);
    if (page !== undefined) return { result: page, route: "page" };
    const match = find(request.method, path);
    if (match.kind === "not found") return { result: limited("without token", results.notFound()) };
    if (match.kind === "wrong method")
      return { result: limited("without token", results.wrongMethod(request.method, match.methods)) };
    const { route, names } = match;
    return { route: `${route.method} ${route.path}`, ...(await authorised(request, route, names)) };
  };

  return httpHandlers(async (request) => {
    const done = await answered(request).catch((error) => ({ result: unavailable(error) }));
    logRequest(logger, done);
    return done.result.response;
  }, logger);
}

const isRead = ({ method }: PlainRequest): boolean => method === "GET" || method === "HEAD";

const unavailable = (error: unknown): HttpResult => results.unavailable(safeReason(error));

/** The settings of the diagnostics API that do not depend on where it runs. */
export interface AdminSettings {
  /** How long a request may wait for the database, and for the secret store, before the answer is 503. 10 s by default. */
  readonly callMs?: number;
  /** How long fetched tokens are used before they are fetched again. 5 minutes by default. */
  readonly tokensMaxAgeMs?: number;
  /** Requests that one instance answers in a minute; those without a token are counted apart. 1,200 by default. */
  readonly requestsPerMinute?: number;
}

/** Options of the diagnostics API. */
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

/** The defaults of the diagnostics API. */
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
async function pageResult(path: string, behindBase: string): Promise<HttpResult | undefined> {
  switch (behindBase) {
    case "": {
      const folder = path.endsWith("/") ? "" : "_oncebox/";
      const html = (await pageFiles()).html.replaceAll("./page.", `${folder}page.`);
      return results.text("File", html, headersOf("text/html"));
    }
    case "page.js":
      return results.text("File", (await pageFiles()).js, headersOf("text/javascript"));
    case "page.css":
      return results.text("File", (await pageFiles()).css, headersOf("text/css"));
    default:
      return undefined;
  }
}
