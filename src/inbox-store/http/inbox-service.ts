import { withDeadline } from "../../base/async.js";
import { type LoggerOption, loggerOf, safeReason } from "../../base/logger.js";
import type { Secrets } from "../../base/secrets.js";
import { guardedMetrics, type Metrics } from "../../base/telemetry.js";
import { ArgumentRangeError, InvalidArgumentError } from "../../errors.js";
import { bearerTokens, secretProblem } from "../../http/bearer-tokens.js";
import { checkFields, type Read, readFields } from "../../http/fields.js";
import { isForeignPage, type PlainRequest } from "../../http/plain.js";
import { type HttpHandlers, type HttpResult, httpHandlers } from "../../http/results.js";
import { type PathNames, pathFrom, type RouteData, type RouteMatch, routeTable } from "../../http/routes.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";
import type { LeasingInboxStore } from "../inbox-store.js";
import { type CallName, callsOf, maxBodyBytes, type ServiceCall } from "./calls.js";
import { openApi } from "./open-api.js";
import { serviceLog, serviceResults } from "./responses.js";

/** The inbox as an HTTP service. */
export type InboxService = HttpHandlers;

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

/** Options of the inbox service. */
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

/** One of the service's paths by one method. */
interface ServiceRoute extends RouteData {
  readonly name: CallName | "openapi";
  readonly isPublic?: boolean;
  run(request: PlainRequest, names: PathNames): Promise<HttpResult>;
}

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
      : bearerTokens(
          tokens,
          {
            fetchMs: settings.callMs,
            maxAgeMs: settings.tokensMaxAgeMs,
            clock,
            onStale: () =>
              logger.warn("the service's tokens could not be refreshed; the last ones are used", {}),
          },
          { owner: "service", problemOf: secretProblem },
        );
  const calls = callsOf(settings);
  const results = serviceResults(auth);
  let document: string | undefined; // made at the first request for it

  const perform = async (call: ServiceCall, read: Read<unknown>): Promise<HttpResult> => {
    if ("refusal" in read) return results.badRequest(read.refusal);
    const run = (signal: AbortSignal) => call.run(store, read.value, { signal });
    return results.ok(await withDeadline(settings.callMs, "The store", run));
  };

  const find = routeTable<ServiceRoute>([
    {
      method: "GET",
      path: `${inboxPath}{key*}`,
      name: "inspect",
      run: (_, { key }) => perform(calls.inspect, checkFields({ key }, calls.inspect)),
    },
    ...Object.entries(calls).map(
      ([name, call]): ServiceRoute => ({
        method: "POST",
        path: inboxPath + name,
        name: name as CallName,
        run: async (request) => perform(call, await readFields(request, call, { maxBytes: maxBodyBytes })),
      }),
    ),
    {
      method: "GET",
      path: documentPath,
      name: "openapi",
      isPublic: true,
      async run() {
        document ??= JSON.stringify(openApi(calls, auth));
        return results.text("Document", document);
      },
    },
  ]);

  /** What is answered without a right token, where one is needed. */
  const refusalOf = async (
    { method, headers }: PlainRequest,
    match: RouteMatch<ServiceRoute>,
  ): Promise<HttpResult | undefined> => {
    if (match.kind === "not found") return results.notFound();
    if (match.kind === "wrong method") return results.wrongMethod(method, match.methods);
    if (tokens === undefined && isForeignPage(headers)) return results.forbidden();
    if (match.route.isPublic) return undefined;
    return (await findToken(headers.get("authorization"))) === undefined ? results.unauthorized() : undefined;
  };
  const unavailable = (error: unknown): HttpResult => results.unavailable(safeReason(error));
  const log = serviceLog(logger, () => clock().getTime());

  return httpHandlers(async (request) => {
    const startedAt = performance.now();
    const match = find(request.method, servicePath(request.path));
    const refusal = await refusalOf(request, match).catch(unavailable);
    const { route, names } = match as Extract<typeof match, { kind: "found" }>; // others are refused
    const result = refusal ?? (await route.run(request, names).catch(unavailable));
    const call = match.kind === "found" ? match.route.name : "none";
    const attributes = { call, outcome: result.outcome };
    metrics?.count("oncebox.service", 1, attributes);
    metrics?.duration("oncebox.service.duration", performance.now() - startedAt, attributes);
    log({ call, result, isProven: refusal === undefined && tokens !== undefined });
    return result.response;
  }, logger);
}

const inboxPath = "/v1/inbox/";
const documentPath = "/v1/openapi.json";

/** What follows the inbox's path is one name, also with slashes in it: some gateways decode them. */
const servicePath = (path: string): string | undefined =>
  pathFrom(path, inboxPath) ?? (path.endsWith(documentPath) ? documentPath : undefined);

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
  const areWhole = Number.isInteger(least) && Number.isInteger(most);
  if (!areWhole || least < 1 || most < least || most > longestLeaseSeconds)
    throw new ArgumentRangeError(
      `minLeaseSeconds and maxLeaseSeconds must be whole numbers from 1 to ${longestLeaseSeconds}, the first not above the second, not ${String(least)} and ${String(most)}.`,
    );
}
