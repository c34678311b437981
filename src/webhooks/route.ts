import { loggerOf } from "../base/logger.js";
import { guardedMetrics } from "../base/metrics.js";
import { openBodies } from "../base/open-bodies.js";
import type { PlainRequest, PlainResponse } from "../base/plain-http.js";
import { type BodyRefusal, readBody } from "../base/read-body.js";
import { safeReason } from "../base/safe-reason.js";
import { toWebResponse } from "../base/to-web-response.js";
import { inSpan, sentHeaders } from "../base/tracing.js";
import { withinTime } from "../base/within-time.js";
import { InvalidOperationError } from "../errors.js";
import type { ReceiveOutcome } from "../inbox/inbox.js";
import { afterEnqueueCaller } from "./after-enqueue.js";
import { endingLog } from "./ending-log.js";
import { extractMessage, type WebhookMessage } from "./extract-message.js";
import { findSource } from "./find-source.js";
import { answerHandshake, findHandshake } from "./handshake.js";
import { publicUrlOf } from "./public-url.js";
import { acceptedResponse, type RefusalName, refusedResponse } from "./responses.js";
import { checkRouteOptions, type ReceivedWebhook, type WebhookRouteOptions } from "./route-options.js";
import { contentTypeOf, createDelivery, type Delivery, isJsonType } from "./schemes/delivery.js";
import { type ResolvedHandshake, type ResolvedSource, resolveSources } from "./sources.js";
import { webhookSpan, webhookSpanEnd } from "./webhook-span.js";

export type WebhookRoute = (request: Request) => Promise<Response>;
/** The same route without the classes `Request` and `Response`. It finds the path itself: a gateway may have added to it. */
export type WebhookReceiver = (request: WebhookRequest) => Promise<PlainResponse>;
type WebhookRequest = Omit<PlainRequest, "path">;

/** The result of a request: the response, and the fields to log and count. */
interface Ending {
  readonly response: PlainResponse;
  readonly outcome: ReceiveOutcome | "handshake" | RefusalName;
  /** For the log only. */
  readonly reason?: string;
  readonly webhook?: ReceivedWebhook;
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
  return async (request) => toWebResponse(await receive(request));
}

export function createWebhookReceiver(options: WebhookRouteOptions): WebhookReceiver {
  const settings = checkRouteOptions(options);
  const { inbox, tracing, clock = () => new Date() } = options;
  const logger = loggerOf(options.logger);
  const metrics = options.metrics === undefined ? undefined : guardedMetrics(options.metrics);
  const logEnding = endingLog(logger, () => clock().getTime());
  const sources = resolveSources(options.sources, {
    ...settings,
    clock,
    onStale: (source) =>
      logger.warn("webhook secrets could not be refreshed; the last ones are used", { source }),
  });

  const largestBody = Math.max(...[...sources.values()].map(({ maxBodyBytes }) => maxBodyBytes));
  const unverified = openBodies({ maxBytes: Math.max(settings.maxUnverifiedBytes, largestBody) });

  const announce =
    options.afterEnqueue && afterEnqueueCaller(options.afterEnqueue, settings.afterEnqueueMs, logger);

  const receive = async (message: WebhookMessage): Promise<ReceiveOutcome> => {
    const { tenant: _, ...content } = message;
    // The context of this request takes the place of the provider's, to which its span links.
    const headers = tracing === undefined ? content.headers : sentHeaders(tracing, content.headers);
    const incoming = { ...content, headers };
    const signal = AbortSignal.timeout(settings.receiveMs);
    if (typeof inbox !== "function") return inbox.receive(incoming, { signal });
    const choosing = Promise.resolve(inbox(identityOf(message)));
    const chosen = await withinTime(settings.receiveMs, choosing, () => inboxNotChosen(settings.receiveMs));
    return chosen.receive(incoming, { signal });
  };

  const enqueue = async (source: ResolvedSource, message: WebhookMessage): Promise<Ending> => {
    const webhook = identityOf(message);
    let outcome: ReceiveOutcome;
    try {
      outcome = await receive(message);
    } catch (error) {
      return { ...refuse("unavailable", `not stored: ${safeReason(error)}`), webhook };
    }
    if (outcome === "enqueued") await announce?.(webhook);
    return { response: acceptedResponse(source.scheme, outcome, message.messageId), outcome, webhook };
  };

  /** Verifies the delivery before it uses anything of the body. */
  const accept = async (source: ResolvedSource, delivery: Delivery): Promise<Ending> => {
    const refusal = await source.verify(delivery);
    if (refusal !== undefined) return refuse("unauthorized", refusal);
    const handshake = findHandshake(source, delivery, false);
    if (handshake !== undefined) return endHandshake(handshake, delivery);
    if (isJsonType(delivery.contentType) && delivery.json() === undefined && !isEncoded(delivery))
      return refuse("bad request", "the body is not JSON");
    const message = extractMessage(delivery, source);
    if (message === undefined) return refuse("bad request", "the request has neither an id nor a body");
    return enqueue(source, message);
  };

  const handle = async (request: WebhookRequest, source: ResolvedSource, path: string): Promise<Ending> => {
    const { method, headers } = request;
    const url = publicUrlOf(request, path, options);
    const head = createDelivery({ method, url, headers, body: new Uint8Array() });
    const handshake = findHandshake(source, head, true);
    if (handshake !== undefined) {
      const refusal = await handshake.verify?.(head);
      return refusal === undefined ? endHandshake(handshake, head) : refuse("unauthorized", refusal);
    }
    if (method !== "POST") {
      const allow = [...new Set(["POST", ...source.handshakes.map((one) => one.method)])].join(", ");
      return refuse("method not allowed", "method", { allow });
    }
    const types = source.scheme.contentTypes;
    if (types !== undefined && !types.some((type) => type.toLowerCase() === contentTypeOf(headers)))
      return refuse("unsupported media type", "content type");
    await source.verify.prepare(head); // so that no body waits for the secrets
    const limits = { maxBytes: source.maxBodyBytes, withinMs: settings.bodyMs, among: unverified };
    const body = await readBody(request, limits);
    if (typeof body === "string") return refuse(...unreadBodies[body]);
    return accept(source, createDelivery({ method, url, headers, body }));
  };

  const handled: typeof handle = (request, source, path) => {
    const ended = () => handle(request, source, path).catch(failureOf);
    if (tracing === undefined) return ended();
    return inSpan(tracing, webhookSpan(source.name, request), ended, ({ response, outcome, webhook }) =>
      webhookSpanEnd(response.status, outcome, webhook),
    );
  };

  return async (request) => {
    const startedAt = performance.now();
    const { source, path } = findSource(request.url, sources);
    const ending = await (source === undefined
      ? refuse("not found", "no such source")
      : handled(request, source, path));
    const { response, outcome, reason, webhook } = ending;
    const name = source?.name ?? "unknown";
    const attributes = { source: name, outcome };
    metrics?.count("oncebox.webhook", 1, attributes);
    metrics?.duration("oncebox.webhook.duration", performance.now() - startedAt, attributes);
    const fields = { ...webhook, source: name, outcome, status: response.status, reason };
    logEnding(fields);
    return response;
  };
}

/** The caller has verified the delivery. */
async function endHandshake(handshake: ResolvedHandshake, delivery: Delivery): Promise<Ending> {
  const response = await answerHandshake(handshake, delivery);
  if (response === undefined)
    return refuse("bad request", "the handshake lacks a value that its answer needs");
  return { response, outcome: "handshake" };
}

const refuse = (error: RefusalName, reason: string, headers: Record<string, string> = {}): Ending => ({
  response: refusedResponse(error, headers),
  outcome: error,
  reason,
});

const unreadBodies: Readonly<Record<BodyRefusal, readonly [RefusalName, string]>> = {
  "too large": ["too large", "body above the limit"],
  malformed: ["bad request", "the body could not be read"],
  "too slow": ["too slow", "the body did not arrive in time"],
  "too many": ["unavailable", "too many bodies are being read"],
};

/** An unavailable secret store is like an unavailable database: the provider tries again. */
const failureOf = (error: unknown): Ending => refuse("unavailable", safeReason(error));

const inboxNotChosen = (ms: number) =>
  new InvalidOperationError(`The function that chooses the inbox did not return within ${ms} ms.`);

const identityOf = ({ source, messageId, topic, tenant }: WebhookMessage): ReceivedWebhook => ({
  source,
  messageId,
  topic,
  tenant,
});

/** Compressed JSON is stored as it is. */
const isEncoded = (delivery: Delivery): boolean =>
  !["", "identity"].includes((delivery.headers.get("content-encoding") ?? "").toLowerCase());
