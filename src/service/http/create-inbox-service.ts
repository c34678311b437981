import type { IncomingMessage, ServerResponse } from "node:http";
import { decoded } from "../../base/decoded.js";
import { isForeignPage } from "../../base/foreign-page.js";
import { loggerOf } from "../../base/logger.js";
import { guardedMetrics } from "../../base/metrics.js";
import type { Route } from "../../base/node-http.js";
import { type PlainRequest, type PlainRoute, respondPlainly, webRoute } from "../../base/plain-http.js";
import { safeReason } from "../../base/safe-reason.js";
import { withDeadline } from "../../queue/store-deadline.js";
import { bearerTokens } from "./bearer-tokens.js";
import { findPath } from "./find-path.js";
import { logEnding } from "./log-ending.js";
import { openApiText } from "./open-api.js";
import { type Operation, type OperationName, operationsOf } from "./operations.js";
import { checkFields, readFields } from "./read-fields.js";
import { type Ending, serviceResponses } from "./responses.js";
import { checkServiceOptions, type InboxServiceOptions } from "./service-options.js";

export interface InboxService {
  /** For platforms that have the parts of a request. */
  readonly respond: PlainRoute;
  /** For hosts of the web's `Request` and `Response`. */
  readonly fetch: Route;
  /** For `createServer` of node:http. */
  readonly listener: (incoming: IncomingMessage, outgoing: ServerResponse) => void;
}

/** What a path takes by one method. */
interface Action {
  readonly name: OperationName | "openapi";
  readonly isPublic?: boolean;
  run(request: PlainRequest): Promise<Ending>;
}

type Actions = Readonly<Partial<Record<string, Action>>>;

/**
 * An inbox store as an HTTP service, for processes in any language. Does no I/O until it is called.
 *
 * @example
 * const service = createInboxService({ store: createSqlInboxStore(db), tokens: () => readToken() });
 * createServer(service.listener).listen(8080);
 */
export function createInboxService(options: InboxServiceOptions): InboxService {
  const settings = checkServiceOptions(options);
  const { store, tokens, clock = () => new Date() } = options;
  const logger = loggerOf(options.logger);
  const metrics = options.metrics === undefined ? undefined : guardedMetrics(options.metrics);
  const auth = tokens === undefined ? "none" : "bearer";
  const findToken =
    tokens === undefined
      ? async () => "anybody"
      : bearerTokens(tokens, {
          fetchMs: settings.callMs,
          maxAgeMs: settings.tokensMaxAgeMs,
          clock,
          onStale: () =>
            logger.warn("the service's tokens could not be refreshed; the last ones are used", {}),
        });
  const operations = operationsOf(settings);
  const responses = serviceResponses(auth);

  const perform = async (
    operation: Operation,
    read: Awaited<ReturnType<typeof readFields>>,
  ): Promise<Ending> => {
    if ("refusal" in read) return responses.badRequest(read.refusal);
    const call = (signal: AbortSignal) => operation.run(store, read.value, { signal });
    return responses.ok(await withDeadline(settings.callMs, "The store", call));
  };

  const posts = new Map<string, Action>(
    Object.entries(operations).map(([name, operation]) => [
      name,
      {
        name: name as OperationName,
        run: async (request) => perform(operation, await readFields(request, operation)),
      },
    ]),
  );

  /** `GET /v1/inbox/{key}`. A path that is no valid percent-encoding is a key that no rule accepts. */
  const inspectAt = (encoded: string): Action => ({
    name: "inspect",
    run: async () =>
      perform(operations.inspect, checkFields({ key: decoded(encoded) ?? "" }, operations.inspect)),
  });

  const document: Action = {
    name: "openapi",
    isPublic: true,
    run: async () => responses.document(openApiText(operations, auth)),
  };

  const actionsAt = (path: string): Actions | undefined => {
    const found = findPath(path);
    if (found === undefined) return undefined;
    const get = found.kind === "document" ? document : inspectAt(found.name);
    const post = found.kind === "document" ? undefined : posts.get(found.name);
    return { GET: get, HEAD: get, ...(post && { POST: post }) };
  };

  const end = async (
    request: PlainRequest,
    actions: Actions | undefined,
    action: Action | undefined,
  ): Promise<Ending> => {
    if (actions === undefined) return responses.notFound();
    const allow = [...Object.keys(actions), "OPTIONS"].join(", ");
    if (request.method === "OPTIONS") return responses.options(allow);
    if (action === undefined) return responses.methodNotAllowed(allow);
    if (tokens === undefined && isForeignPage(request.headers)) return responses.forbidden();
    if (!action.isPublic && (await findToken(request.headers.get("authorization"))) === undefined)
      return responses.unauthorized();
    return action.run(request);
  };

  const respond: PlainRoute = async (request) => {
    const startedAt = performance.now();
    const actions = actionsAt(request.path);
    const action = actions && Object.hasOwn(actions, request.method) ? actions[request.method] : undefined;
    const ending = end(request, actions, action);
    const ended = await ending.catch((error: unknown) => responses.unavailable(safeReason(error)));
    const operation = action?.name ?? "none";
    const attributes = { operation, outcome: ended.outcome };
    metrics?.count("oncebox.service", 1, attributes);
    metrics?.duration("oncebox.service.duration", performance.now() - startedAt, attributes);
    logEnding(logger, operation, ended);
    return ended.response;
  };

  const failed = (error: unknown) => logger.error("request failed", { error: safeReason(error) });
  return {
    respond,
    fetch: webRoute(respond),
    listener: (incoming, outgoing) => void respondPlainly(incoming, outgoing, respond, failed),
  };
}
