import type { IncomingMessage, ServerResponse } from "node:http";
import { type LoggerOption, loggerOf, safeReason } from "../../base/logger.js";
import type { Route } from "../../base/node-http.js";
import {
  decoded,
  isForeignPage,
  type PlainRequest,
  type PlainRoute,
  respondPlainly,
  webRoute,
} from "../../base/plain-http.js";
import { guardedMetrics, type Metrics } from "../../base/telemetry.js";
import { withDeadline } from "../../base/timers.js";
import { ArgumentRangeError, InvalidArgumentError } from "../../errors.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";
import type { Secrets } from "../../webhooks/schemes/secret-keys.js";
import type { LeasingInboxStore } from "../inbox-store.js";
import { bearerTokens } from "./bearer-tokens.js";
import { openApiText } from "./open-api.js";
import { type Operation, type OperationName, operationsOf } from "./operations.js";
import { checkFields, readFields } from "./read-fields.js";
import { type Ending, logEnding, serviceResponses } from "./responses.js";

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

/** What a path names, without the prefix that a gateway adds. */
type FoundPath =
  | { readonly kind: "document" }
  /** The name of an operation, or a key, still percent-encoded. */
  | { readonly kind: "inbox"; readonly name: string };

const inboxPath = "/v1/inbox/";
const documentPath = "/v1/openapi.json";

/** The rest of the path is one name, also with slashes in it: some gateways decode them. */
function findPath(path: string): FoundPath | undefined {
  const at = path.indexOf(inboxPath);
  if (at >= 0) return { kind: "inbox", name: path.slice(at + inboxPath.length) };
  return path.endsWith(documentPath) ? { kind: "document" } : undefined;
}

/** The settings of the service that do not depend on where it runs. */
export interface InboxServiceSettings {
  /** `"none"` lets everybody in who can reach the service. Without it the service has tokens. */
  readonly auth?: "none";
  /** The shortest lease that a caller may ask for: 30 by default. */
  readonly minLeaseSeconds?: number;
  /** The longest lease that a caller may ask for: 120 by default. */
  readonly maxLeaseSeconds?: number;
  /** How long the store and the secret store may each take before the answer is 503. 5 s by default. */
  readonly callMs?: number;
  /** How long fetched tokens are used before they are fetched again. 5 minutes by default. */
  readonly tokensMaxAgeMs?: number;
}

export interface InboxServiceOptions extends InboxServiceSettings {
  /** Where keys are kept: the SQL store, or any other one. */
  readonly store: LeasingInboxStore;
  /** All bearer tokens that are valid at present, or functions that fetch them. */
  readonly tokens?: Secrets;
  readonly logger?: LoggerOption;
  readonly metrics?: Metrics;
  /** The clock by which fetched tokens grow old, for tests. */
  readonly clock?: () => Date;
}

export const inboxServiceDefaults = {
  minLeaseSeconds: 30,
  maxLeaseSeconds: 120,
  callMs: 5_000,
  tokensMaxAgeMs: 5 * 60_000,
} as const;

/** A longer lease would keep the key of a dead caller for too long. */
const longestLeaseSeconds = 3_600;

const serviceOptionNames = [
  "store",
  "tokens",
  "auth",
  "logger",
  "metrics",
  "clock",
  ...Object.keys(inboxServiceDefaults),
];

/** Returns the options with the defaults filled in. */
function checkServiceOptions(options: InboxServiceOptions) {
  refuseUnknown(options, serviceOptionNames, "service");
  const settings = { ...inboxServiceDefaults, ...options };
  for (const name of ["callMs", "tokensMaxAgeMs"] as const) requireDuration(settings[name], name);
  requireLeaseBounds(settings.minLeaseSeconds, settings.maxLeaseSeconds);
  const { store, tokens, auth } = options;
  if (typeof store?.tryBegin !== "function")
    throw new InvalidArgumentError("service: store must be an inbox store that leases keys.");
  if (auth !== undefined && auth !== "none")
    throw new InvalidArgumentError('service: auth can only be "none". For bearer tokens, give tokens.');
  if ((tokens === undefined) === (auth === undefined))
    throw new InvalidArgumentError('service: give either tokens or auth: "none".');
  return settings;
}

function requireLeaseBounds(least: number, most: number): void {
  const isRight =
    Number.isInteger(least) &&
    Number.isInteger(most) &&
    least >= 1 &&
    least <= most &&
    most <= longestLeaseSeconds;
  if (!isRight)
    throw new ArgumentRangeError(
      `minLeaseSeconds and maxLeaseSeconds must be whole numbers from 1 to ${longestLeaseSeconds}, the first not above the second, not ${String(least)} and ${String(most)}.`,
    );
}
