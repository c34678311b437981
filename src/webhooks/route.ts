import { loggerOf } from "../base/logger.js";
import { memoisePromise } from "../base/memoise-promise.js";
import { guardedMetrics } from "../base/metrics.js";
import { openBodies } from "../base/open-bodies.js";
import type { PlainRequest, PlainResponse } from "../base/plain-http.js";
import { readBody } from "../base/read-body.js";
import { toWebResponse } from "../base/to-web-response.js";
import { inSpan } from "../base/tracing.js";
import { deliveryAcceptor } from "./accept-delivery.js";
import { afterEnqueueCaller } from "./after-enqueue.js";
import { type Ending, failureOf, refuse, unreadBodies } from "./ending.js";
import { endingLog } from "./ending-log.js";
import { type FoundSource, findSource } from "./find-source.js";
import { endHandshake, findInHead } from "./handshake.js";
import { dividedSources, withPresets } from "./load-presets.js";
import { publicUrlOf } from "./public-url.js";
import { type ReceiveDeadline, receiveDeadline } from "./receive-deadline.js";
import { refusedResponse } from "./responses.js";
import { checkRouteOptions, type WebhookRouteOptions } from "./route-options.js";
import { checkScheme } from "./schemes/check-scheme.js";
import { contentTypeOf, createDelivery } from "./schemes/delivery.js";
import type { FetchText } from "./schemes/fetch-text.js";
import type { ReadScheme } from "./schemes/read-scheme.js";
import { type LoadedSource, type ResolvedSource, resolveSources } from "./sources.js";
import { messageStore } from "./store-messages.js";
import { webhookSpan, webhookSpanEnd } from "./webhook-span.js";

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
    if (typeof body === "string") return refuse(...unreadBodies[body]);
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
  (await import("./schemes/fetch-text.js")).fetchText(url, signal);

/** Some providers expect other answers to refused requests than the usual ones. */
const withAnswersOf = ({ scheme: { refusals } }: ResolvedSource, ending: Ending): Ending => {
  const { refusal } = ending;
  if (refusal === undefined || refusals?.[refusal.name] === undefined) return ending;
  return { ...ending, response: refusedResponse(refusal.name, { ...refusal.headers }, refusals) };
};
