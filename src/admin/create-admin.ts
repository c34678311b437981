import { withDeadline } from "../base/async.js";
import { type LoggerOption, loggerOf } from "../base/logger.js";
import type { Secrets } from "../base/secrets.js";
import { InvalidArgumentError } from "../errors.js";
import { type AdminSettings, adminDefaults, checkAdminSettings } from "../http/admin-access.js";
import { adminApi, unavailable } from "../http/admin-api.js";
import { type Answer, type AnsweredRequest, adminResults as results } from "../http/admin-responses.js";
import type { PlainRequest } from "../http/plain.js";
import { type HttpHandlers, type HttpResult, httpHandlers } from "../http/results.js";
import type { Inbox } from "../inbox/inbox.js";
import { type OperatedStores, withOperators } from "../operators/operators-of.js";
import type { Outbox } from "../outbox/outbox.js";
import { nameProblem, refuseUnknown } from "../queue/arguments.js";
import { operatorOf } from "./access.js";
import { pageFiles } from "./page-files.js";
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
  const { clock = () => new Date(), tokens = "" } = options; // without tokens it is refused, as with an empty one
  const logger = loggerOf(options.logger);
  const storesOf = tenantStores(options);

  const run = async (
    route: AdminRoute,
    { fields, tenant }: RequestFields,
    by: string,
  ): Promise<AnsweredRequest> => {
    let known: string | undefined; // a tenant that does not exist is no name for the log: it may be a pasted token
    const result = await withDeadline(settings.callMs, "The database", async (signal) => {
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

  const api = adminApi({
    routes: adminRoutes(options),
    settings,
    tokens,
    logger,
    clock,
    async open(request, path) {
      const page = path === undefined || !isRead(request) ? undefined : await pageResult(request.path, path);
      return page && { result: page, route: "page" };
    },
    operatorOf,
    read: readRequest,
    run,
  });
  return httpHandlers((request) => api(request, pathBehindBase(request.path)), logger);
}

const isRead = ({ method }: PlainRequest): boolean => method === "GET" || method === "HEAD";

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

const known = ["stores", "tenants", "tokens", "logger", "clock", ...Object.keys(adminDefaults)];

function checkAdminOptions(options: AdminOptions): Required<AdminSettings> {
  refuseUnknown(options, known, "admin");
  const { stores, tenants } = options;
  if ((stores === undefined) === (tenants === undefined))
    throw new InvalidArgumentError("admin: give either stores or tenants.");
  return checkAdminSettings(options);
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
