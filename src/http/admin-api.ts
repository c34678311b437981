import { type Logger, safeReason } from "../base/logger.js";
import type { Secrets } from "../base/secrets.js";
import { type AdminSettings, adminTokens, type RequestKind, requestLimits } from "./admin-access.js";
import { type Answer, type AnsweredRequest, adminLog, adminResults as results } from "./admin-responses.js";
import { bearerTokens } from "./bearer-tokens.js";
import type { Read } from "./fields.js";
import type { PlainRequest, PlainResponse } from "./plain.js";
import type { HttpResult } from "./results.js";
import { type PathNames, type RouteData, routeTable } from "./routes.js";

export interface AdminApiRoute extends RouteData {
  /** What a caller without a token gets. Without it that is a refusal. */
  readonly withoutToken?: Answer;
}

export interface AdminApiParts<Route, Fields> {
  readonly routes: readonly Route[];
  readonly settings: Required<AdminSettings>;
  /** Undefined: no token is right. */
  readonly tokens: Secrets | undefined;
  readonly logger: Logger;
  readonly clock: () => Date;
  /** What is answered without a token beside `withoutToken`: a page, which holds no data. */
  open?(request: PlainRequest, path: string | undefined): Promise<AnsweredRequest | undefined>;
  /** Who asks. */
  operatorOf(request: PlainRequest, token: string): Read<string>;
  /** Called with a right token only. */
  read(request: PlainRequest, route: Route, names: PathNames): Promise<Read<Fields>>;
  run(route: Route, fields: Fields, by: string): Promise<AnsweredRequest>;
}

/** Answers a request for the path behind the API's base; undefined is a path of nothing. Never rejects. */
export type AdminApi = (request: PlainRequest, path: string | undefined) => Promise<PlainResponse>;

/**
 * What the APIs for the people who run an app or a service have in common: tokens, limits, and one log line for each request.
 * Does no I/O until it is called.
 */
export function adminApi<Route extends AdminApiRoute, Fields>(parts: AdminApiParts<Route, Fields>): AdminApi {
  const { settings, logger, clock } = parts;
  const findToken = tokenFinder(parts);
  const limits = requestLimits(settings.requestsPerMinute, clock);
  const find = routeTable(parts.routes);
  const log = adminLog(logger, () => clock().getTime());

  /** The result, unless there were too many requests of the kind. */
  const limited = (kind: RequestKind, result: HttpResult): HttpResult =>
    limits.take(kind) ? result : results.tooMany(limits.secondsLeft());

  /** Without the right token nothing is read, neither of the body nor of a database. */
  const authorised = async (
    request: PlainRequest,
    route: Route,
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
      // So this bounds what guessing costs us, and not how fast it goes. A delay would hold an instance for each guess, and
      // instances do not share what they have counted. The length of the secret is what keeps it.
      if (limits.isBlocked(client)) return { result: results.tooMany(limits.secondsLeft()) };
      limits.failed(client);
      return { result: limited("without token", results.unauthorized()) };
    }
    const by = parts.operatorOf(request, token);
    if ("refusal" in by) return { result: results.badRequest(by.refusal) };
    if (!limits.take("with token")) return { result: results.tooMany(limits.secondsLeft()), by: by.value };
    const read = await parts.read(request, route, names);
    if ("refusal" in read) return { result: results.badRequest(read.refusal), by: by.value };
    return parts.run(route, read.value, by.value);
  };

  const answered = async (request: PlainRequest, path: string | undefined): Promise<AnsweredRequest> => {
    const open = await parts.open?.(request, path);
    if (open !== undefined) return open;
    const match = find(request.method, path);
    if (match.kind === "not found") return { result: limited("without token", results.notFound()) };
    if (match.kind === "wrong method")
      return { result: limited("without token", results.wrongMethod(request.method, match.methods)) };
    const { route, names } = match;
    return { route: `${route.method} ${route.path}`, ...(await authorised(request, route, names)) };
  };

  return async (request, path) => {
    const done = await answered(request, path).catch((error) => ({ result: unavailable(error) }));
    log(done);
    return done.result.response;
  };
}

function tokenFinder({
  tokens,
  settings,
  clock,
  logger,
}: Pick<AdminApiParts<never, never>, "tokens" | "settings" | "clock" | "logger">): ReturnType<
  typeof bearerTokens
> {
  if (tokens === undefined) return async () => undefined;
  const { callMs: fetchMs, tokensMaxAgeMs: maxAgeMs } = settings;
  const onStale = () => logger.warn("the admin tokens could not be refreshed; the last ones are used", {});
  return bearerTokens(tokens, { fetchMs, maxAgeMs, clock, onStale }, adminTokens);
}

/** The result of a request that failed. */
export const unavailable = (error: unknown): HttpResult => results.unavailable(safeReason(error));
