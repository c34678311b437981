import { loggerOf } from "../base/logger.js";
import { memoisePromise } from "../base/memoise-promise.js";
import { guardedMetrics } from "../base/metrics.js";
import { openBodies } from "../base/open-bodies.js";
import type { PlainRequest, PlainResponse } from "../base/plain-http.js";
import { readBody } from "../base/read-body.js";
import { toWebResponse } from "../base/to-web-response.js";
import { inSpan } from "../base/tracing.js";
import { afterEnqueueCaller } from "./after-enqueue.js";
import { type Ending, failureOf, refuse, unreadBodies } from "./ending.js";
import { endingLog } from "./ending-log.js";
import { extractMessages } from "./extract-message.js";
import { findSource } from "./find-source.js";
import { endHandshake, findInHead, findInProven, findWithToken } from "./handshake.js";
import { dividedSources, withPresets } from "./load-presets.js";
import { publicUrlOf } from "./public-url.js";
import { refusedResponse } from "./responses.js";
import { checkRouteOptions, type WebhookRouteOptions } from "./route-options.js";
import { contentTypeOf, createDelivery, type Delivery, formOfQuery, isJsonType } from "./schemes/delivery.js";
import type { FetchText } from "./schemes/fetch-text.js";
import { type LoadedSource, type ResolvedSource, resolveSources } from "./sources.js";
import { messageStore } from "./store-messages.js";
import { webhookSpan, webhookSpanEnd } from "./webhook-span.js";

export interface WebhookRoute extends Preparing {
  (request: Request): Promise<Response>;
}
/** The same route without the classes `Request` and `Response`. It finds the path itself: a gateway may have added to it. */
export type WebhookReceiver = (request: WebhookRequest) => Promise<PlainResponse>;
type WebhookRequest = Omit<PlainRequest, "path">;

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
  const receive = createWebhookReceiver(options);
  const route = async (request: Request) => toWebResponse(await receive(request));
  return Object.assign(route, { prepare: receive.prepare });
}

export function createWebhookReceiver(options: WebhookRouteOptions): WebhookReceiver & Preparing {
  const settings = checkRouteOptions(options);
  const { inbox, tracing, clock = () => new Date() } = options;
  const logger = loggerOf(options.logger);
  const metrics = options.metrics === undefined ? undefined : guardedMetrics(options.metrics);
  const logEnding = endingLog(logger, () => clock().getTime());
  const announce =
    options.afterEnqueue && afterEnqueueCaller(options.afterEnqueue, settings.afterEnqueueMs, logger);
  const store = messageStore({ inbox, tracing, announce });

  const resolve = (sources: Readonly<Record<string, LoadedSource>>, problems: readonly string[]) =>
    resolveSources(sources, problems, {
      ...settings,
      longestReceiveMs: options.receiveMs,
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

  /** Verifies the delivery before it uses anything of the body. */
  const accept = async (source: ResolvedSource, delivery: Delivery): Promise<Ending> => {
    const withToken = await findWithToken(source, delivery);
    const refusal = withToken === undefined ? await source.verify(delivery) : undefined;
    if (refusal !== undefined) return refuse("unauthorized", refusal);
    const found = withToken ?? findInProven(source, delivery);
    if (found === undefined) return storeEvents(source, formOfQuery(delivery));
    const { handshake, event, toStore } = found;
    if (toStore.length === 0) return endHandshake(handshake, event);
    const stored = await storeEvents(source, delivery, toStore);
    if (stored.refusal !== undefined) return stored;
    const { response, refusal: unanswered } = await endHandshake(handshake, event);
    return unanswered === undefined ? { ...stored, response } : stored;
  };

  const storeEvents = async (
    source: ResolvedSource,
    delivery: Delivery,
    events?: readonly Delivery[],
  ): Promise<Ending> => {
    const isJson = isJsonType(delivery.contentType) && delivery.body.length > 0 && !isEncoded(delivery);
    if (isJson && delivery.json() === undefined) return refuse("bad request", "the body is not JSON");
    const messages = extractMessages(delivery, source, clock(), events);
    if (messages === "no id") return refuse("bad request", "the request has neither an id nor a body");
    if (messages === "too many events") return refuse("too large", messages);
    return store(source, messages);
  };

  const handle = async (request: WebhookRequest, source: ResolvedSource, path: string): Promise<Ending> => {
    const { method, headers } = request;
    const url = publicUrlOf(request, path, options);
    const head = createDelivery({ method, url, headers, body: new Uint8Array() });
    const handshake = findInHead(source, head);
    if (handshake !== undefined) {
      const refusal = await handshake.verify?.(head);
      return refusal === undefined ? endHandshake(handshake, head) : refuse("unauthorized", refusal);
    }
    const methods: readonly string[] = source.scheme.methods ?? ["POST"];
    if (!methods.includes(method)) {
      const allow = [...new Set([...methods, ...source.handshakes.map((one) => one.method)])].join(", ");
      return refuse("method not allowed", "method", { allow });
    }
    const types = source.scheme.contentTypes;
    if (method === "POST" && types?.every((type) => type.toLowerCase() !== contentTypeOf(headers)))
      return refuse("unsupported media type", "content type");
    await source.verify.prepare(head); // so that no body waits for the secrets
    if (method === "GET") return accept(source, head);
    const limits = { maxBytes: source.maxBodyBytes, withinMs: settings.bodyMs, among: unverified };
    const body = await readBody(request, limits);
    if (typeof body === "string") return refuse(...unreadBodies[body]);
    return accept(source, createDelivery({ method, url, headers, body }));
  };

  const handled: typeof handle = (request, source, path) => {
    const ended = async () => withAnswersOf(source, await handle(request, source, path).catch(failureOf));
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
        : handled(request, source, found.path));
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

/** Compressed JSON is stored as it is. */
const isEncoded = (delivery: Delivery): boolean =>
  !["", "identity"].includes((delivery.headers.get("content-encoding") ?? "").toLowerCase());
