import { memoisePromise } from "../base/concurrency.js";
import { type LoggerOption, loggerOf, safeReason } from "../base/logger.js";
import { guardedMetrics, inSpan } from "../base/telemetry.js";
import { type IncomingHeaders, openBodies, readBody } from "../http/body.js";
import { type NodeMiddleware, nodeMiddleware } from "../http/node.js";
import { decoded, type PlainRequest, type PlainResponse, toWebResponse } from "../http/plain.js";
import { refuseUnknown } from "../queue/arguments.js";
import {
  afterEnqueueCaller,
  deliveryAcceptor,
  messageStore,
  type ReceiveDeadline,
  receiveDeadline,
} from "./accept-delivery.js";
import { endHandshake, findInHead } from "./handshake.js";
import {
  bodyRefusals,
  type Ending,
  endingLog,
  failureOf,
  refuse,
  refusedResponse,
  webhookSpan,
  webhookSpanEnd,
} from "./responses.js";
import { checkRouteOptions, type WebhookRouteOptions } from "./route-options.js";
import { checkScheme } from "./schemes/check-scheme.js";
import { contentTypeOf, createDelivery } from "./schemes/delivery.js";
import type { FetchText } from "./schemes/provider-keys.js";
import type { ReadScheme } from "./schemes/read-scheme.js";
import { webhookPath } from "./schemes/template.js";
import {
  dividedSources,
  type LoadedSource,
  type ResolvedSource,
  resolveSources,
  withPresets,
} from "./sources.js";

export interface WebhookRoute extends Preparing {
  (request: Request): Promise<Response>;
}
/** The same route without the classes `Request` and `Response`. It finds the path itself: a gateway may have added to it. */
export type WebhookReceiver = (request: WebhookRequest) => Promise<PlainResponse>;
type WebhookRequest = Omit<PlainRequest, "path">;

type Found = Required<FoundSource> & { readonly source: ResolvedSource };

interface Preparing {
  /** Loads the presets that sources name, and checks those sources. The first request does it otherwise. */
  prepare(): Promise<void>;
}

/**
 * Receives webhooks at `/webhooks/{source}`: verifies, deduplicates and enqueues them. Answers 2xx only after the commit.
 * Does no I/O until it is called.
 *
 * @example
 * const route = createWebhookRoute({
 *   inbox: createInbox(db),
 *   sources: { stripe: { scheme: "stripe", secrets: ["whsec_…"] } },
 * });
 * const response = await route(request);
 */
export function createWebhookRoute(options: WebhookRouteOptions): WebhookRoute {
  const receive = createWebhookReceiver(options, checkScheme);
  const route = async (request: Request) => toWebResponse(await receive(request));
  return Object.assign(route, { prepare: receive.prepare });
}

/** @param readScheme reads the sources' schemes: see `schemeReader`, which loads no more than they need */
export function createWebhookReceiver(
  options: WebhookRouteOptions,
  readScheme: ReadScheme,
): WebhookReceiver & Preparing {
  const settings = checkRouteOptions(options);
  const { inbox, tracing, clock = () => new Date() } = options;
  const logger = loggerOf(options.logger);
  const metrics = options.metrics === undefined ? undefined : guardedMetrics(options.metrics);
  const logEnding = endingLog(logger, () => clock().getTime());
  const announce =
    options.afterEnqueue && afterEnqueueCaller(options.afterEnqueue, settings.afterEnqueueMs, logger);
  const accept = deliveryAcceptor(messageStore({ inbox, tracing, announce }), clock);

  const resolve = (sources: Readonly<Record<string, LoadedSource>>, problems: readonly string[]) =>
    resolveSources(sources, problems, {
      ...settings,
      longestReceiveMs: options.receiveMs,
      readScheme,
      clock,
      fetchText: options.fetchText ?? fetchText,
      onStale: (source) =>
        logger.warn("webhook secrets could not be refreshed; the last ones are used", { source }),
    });
  const { loaded, named, problems } = dividedSources(options.sources);
  const known = resolve(loaded, problems);
  const ready = memoisePromise(async () => new Map([...known, ...resolve(await withPresets(named), [])]));

  const bodies = Object.values(options.sources).map((source) => source.maxBodyBytes ?? settings.maxBodyBytes);
  const unverified = openBodies({ maxBytes: Math.max(settings.maxUnverifiedBytes, ...bodies) });

  const handle = async (
    request: WebhookRequest,
    { source, path }: Found,
    deadline: ReceiveDeadline,
  ): Promise<Ending> => {
    const { method, headers } = request;
    const url = publicUrlOf(request, path, options);
    const head = createDelivery({ method, url, headers, body: new Uint8Array() });
    const handshake = findInHead(source, head);
    if (handshake !== undefined) {
      return deadline.within("the handshake", async () => {
        const refusal = await handshake.verify?.(head);
        return refusal === undefined ? endHandshake(handshake, head) : refuse("unauthorized", refusal);
      });
    }
    const methods: readonly string[] = source.scheme.methods ?? ["POST"];
    if (!methods.includes(method)) {
      const allow = [...new Set([...methods, ...source.handshakes.map((one) => one.method)])].join(", ");
      return refuse("method not allowed", "method", { allow });
    }
    const types = source.scheme.contentTypes;
    if (method === "POST" && types?.every((type) => type.toLowerCase() !== contentTypeOf(headers)))
      return refuse("unsupported media type", "content type");
    // first, so that no body waits for the secrets
    await deadline.within("fetching the secrets", () => source.verify.prepare(head));
    if (method === "GET") return accept(source, head, deadline);
    const leftMs = deadline.remainingMs();
    const withinMs = Math.min(settings.bodyMs, leftMs);
    const body = await readBody(request, { maxBytes: source.maxBodyBytes, withinMs, among: unverified });
    if (body === "too slow" && withinMs === leftMs) throw deadline.overAt("reading the body");
    if (typeof body === "string") return refuse(...bodyRefusals[body]);
    return accept(source, createDelivery({ method, url, headers, body }), deadline);
  };

  const handled = (request: WebhookRequest, found: Found, startedAt: number): Promise<Ending> => {
    const { source } = found;
    const ended = async () => {
      const deadline = receiveDeadline(source.receiveMs, startedAt);
      const ending = await handle(request, found, deadline).catch(failureOf);
      deadline.end();
      return withAnswersOf(source, ending);
    };
    if (tracing === undefined) return ended();
    return inSpan(tracing, webhookSpan(source.name, request), ended, ({ response, outcome, webhook }) =>
      webhookSpanEnd(response.status, outcome, webhook),
    );
  };

  const receive: WebhookReceiver = async (request) => {
    const startedAt = performance.now();
    const found = await ready().then((sources) => findSource(request.url, sources), failureOf);
    const source = "path" in found ? found.source : undefined;
    const ending = await ("response" in found
      ? found
      : source === undefined
        ? refuse("not found", "no such source")
        : handled(request, { source, path: found.path }, startedAt));
    const { response, outcome, reason, webhook, counts } = ending;
    const name = source?.name ?? "unknown";
    const attributes = { source: name, outcome };
    metrics?.count("oncebox.webhook", 1, attributes);
    metrics?.duration("oncebox.webhook.duration", performance.now() - startedAt, attributes);
    const fields = { ...webhook, ...counts, source: name, outcome, status: response.status, reason };
    logEnding(fields);
    return response;
  };

  return Object.assign(receive, { prepare: async () => void (await ready()) });
}

/** Loaded when it is used: most providers publish nothing to fetch. */
const fetchText: FetchText = async (url, signal) =>
  (await import("./schemes/provider-keys.js")).fetchText(url, signal);

/** Some providers expect other answers to refused requests than the usual ones. */
const withAnswersOf = ({ scheme: { refusals } }: ResolvedSource, ending: Ending): Ending => {
  const { refusal } = ending;
  if (refusal === undefined || refusals?.[refusal.name] === undefined) return ending;
  return { ...ending, response: refusedResponse(refusal.name, { ...refusal.headers }, refusals) };
};

interface FoundSource {
  readonly source?: ResolvedSource | undefined;
  /** `/webhooks/{source}` or `/webhooks/{source}/{tenant}`, without the prefix that a gateway adds. */
  readonly path: string;
}

/** Finds no source when the path names a tenant and the source does not read it from there. */
function findSource(url: string, sources: ReadonlyMap<string, ResolvedSource>): FoundSource {
  const { path, source: encoded, tenant } = webhookPath(url);
  const source = sources.get(decoded(encoded) ?? "");
  const isFound = tenant === undefined || (source !== undefined && hasTenantInPath(source));
  return isFound ? { source, path } : { path };
}

const hasTenantInPath = ({ tenant }: ResolvedSource): boolean =>
  tenant.some((parts) => parts.some((part) => part.placeholder === "path"));

interface PublicUrlOptions {
  readonly publicUrl?: string | undefined;
  readonly trustForwardedHeaders?: boolean | undefined;
}

/**
 * Returns the URL that the provider called. Behind a gateway the request itself may have another one. Its text stays as it
 * was received, because schemes sign it: `URL` would write an apostrophe of the query as an escape.
 */
function publicUrlOf(
  { url, headers }: Pick<PlainRequest, "url" | "headers">,
  path: string,
  options: PublicUrlOptions,
): string {
  const [, protocol = "", host = "", rest = ""] = /^(\w+):\/\/([^/?#]*)(.*)$/s.exec(url) ?? [];
  if (options.publicUrl !== undefined) {
    const base = options.publicUrl.replace(/\/+$/, "");
    const [search = ""] = /\?[^#]*/.exec(rest) ?? [];
    return `${base}${path}${search}`;
  }
  if (!options.trustForwardedHeaders) return url;
  const forwardedProtocol = firstOf(headers, "x-forwarded-proto") ?? protocol;
  const forwardedHost = firstOf(headers, "x-forwarded-host") ?? host;
  if (!/^https?$/.test(forwardedProtocol) || !/^[\w.:[\]-]*$/.test(forwardedHost)) return url;
  const called = `${forwardedProtocol}://${forwardedHost}${rest}`;
  return URL.canParse(called) ? called : url;
}

/** The outermost proxy adds the first value. */
const firstOf = (headers: IncomingHeaders, name: string): string | undefined =>
  headers.get(name)?.split(",", 1)[0]?.trim() || undefined;

export interface WebhookMiddlewareOptions {
  readonly logger?: LoggerOption;
}

/**
 * The webhook route as middleware of Express, Connect and Nest, or a hook of Fastify. Requests for other paths than
 * `…/webhooks/{source}` go to `next`. It has to come before a parser of bodies, or after one that keeps the bytes, such
 * as `express.raw`: the signature is over the bytes.
 *
 * @example
 * const middleware = webhookMiddleware(route);
 * app.use(middleware); // Express
 * fastify.addHook("onRequest", (request, reply, done) => middleware(request.raw, reply.raw, done)); // Fastify
 */
export function webhookMiddleware(
  route: WebhookRoute,
  options: WebhookMiddlewareOptions = {},
): NodeMiddleware {
  refuseUnknown(options, ["logger"], "webhookMiddleware");
  const logger = loggerOf(options.logger);
  return nodeMiddleware({
    route,
    isFor: (path) => /\/webhooks\/[^/]/.test(path),
    failed: (error) => logger.error("webhook failed", { error: safeReason(error) }),
    name: "webhookMiddleware",
  });
}
