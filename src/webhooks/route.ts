import { type LoggerOption, loggerOf, safeReason } from "../base/logger.js";
import { guardedMetrics, inSpan, type Metrics } from "../base/telemetry.js";
import { type BodyRefusal, type OpenBodies, openBodies, readBody } from "../http/body.js";
import { type NodeMiddleware, nodeMiddleware } from "../http/node.js";
import { decoded, type PlainRequest, type PlainResponse, toWebResponse } from "../http/plain.js";
import { refuseUnknown } from "../queue/arguments.js";
import { DeliveryAcceptor, ReceiveDeadline } from "./accept-delivery.js";
import { answerHandshake, findInHead } from "./handshake.js";
import {
  bodyRefusals,
  failureOf,
  refuse,
  refusedResponse,
  resultLog,
  type WebhookResult,
  webhookSpan,
  webhookSpanEnd,
} from "./responses.js";
import { checkRouteOptions, type WebhookRouteOptions } from "./route-options.js";
import { checkScheme } from "./schemes/check-scheme.js";
import { contentTypeOf, createDelivery } from "./schemes/delivery.js";
import type { ReadScheme } from "./schemes/read-scheme.js";
import { webhookPath } from "./schemes/template.js";
import { loadSources, type ResolvedSource, type SchemesOf, type WebhookSource } from "./sources.js";
import { WrongTokens } from "./wrong-tokens.js";

/** Receives webhooks: a request in, a response out. */
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
 *   sources: { stripe: { secrets: ["whsec_…"] } },
 * });
 * const response = await route(request);
 */
export function createWebhookRoute<Source extends string = string>(
  options: WebhookRouteOptions & { readonly sources: SchemesOf<Source, WebhookSource> },
): WebhookRoute {
  const receive = createWebhookReceiver(options, checkScheme);
  const route = async (request: Request) => toWebResponse(await receive(request));
  return Object.assign(route, { prepare: receive.prepare });
}

/** @param readScheme reads the sources' schemes: see `schemeReader`, which loads no more than they need */
export function createWebhookReceiver(
  options: WebhookRouteOptions,
  readScheme: ReadScheme,
): WebhookReceiver & Preparing {
  const receiver = new Receiver(options, readScheme);
  return Object.assign((request: WebhookRequest) => receiver.receive(request), {
    prepare: () => receiver.prepare(),
  });
}

class Receiver {
  readonly #settings: ReturnType<typeof checkRouteOptions>;
  readonly #sources: ReturnType<typeof loadSources>;
  readonly #deliveries: DeliveryAcceptor;
  /** The bodies that are being read, whose signatures are not verified yet. */
  readonly #unverified: OpenBodies;
  readonly #wrongTokens: WrongTokens;
  readonly #log: ReturnType<typeof resultLog>;
  readonly #metrics: Metrics | undefined;

  constructor(options: WebhookRouteOptions, readScheme: ReadScheme) {
    const settings = checkRouteOptions(options);
    const { sources, metrics, maxUnverifiedBytes, clock = () => new Date() } = settings;
    const logger = loggerOf(options.logger);
    this.#settings = settings;
    this.#wrongTokens = new WrongTokens(settings.wrongTokenMs);
    this.#metrics = metrics === undefined ? undefined : guardedMetrics(metrics);
    this.#log = resultLog(logger, () => clock().getTime());
    this.#deliveries = new DeliveryAcceptor({ ...settings, logger, clock });
    this.#sources = loadSources(sources, {
      ...settings,
      longestReceiveMs: options.receiveMs,
      readScheme,
      clock,
      onStale: (source) =>
        logger.warn("webhook secrets could not be refreshed; the last ones are used", { source }),
    });
    const bodies = Object.values(sources).map((source) => source.maxBodyBytes ?? settings.maxBodyBytes);
    this.#unverified = openBodies({ maxBytes: Math.max(maxUnverifiedBytes, ...bodies) });
  }

  async prepare(): Promise<void> {
    await this.#sources();
  }

  async receive(request: WebhookRequest): Promise<PlainResponse> {
    const startedAt = performance.now();
    const found = await this.#sources().then((sources) => findSource(request.url, sources), failureOf);
    if ("outcome" in found) return this.#report(found, undefined, startedAt);
    const result = await this.#traced(request, found, startedAt);
    const response = this.#report(result, found.source, startedAt);
    if (isGuess(result, found.source)) await this.#wrongTokens.wait(found.source.name);
    return response;
  }

  /** Counts and logs how a request ended. */
  #report(result: WebhookResult, source: ResolvedSource | undefined, startedAt: number): PlainResponse {
    const response = responseOf(result, source);
    const attributes = { source: source?.name ?? "unknown", outcome: result.outcome };
    this.#metrics?.count("oncebox.webhook", 1, attributes);
    this.#metrics?.duration("oncebox.webhook.duration", performance.now() - startedAt, attributes);
    const details = result.response === undefined ? { reason: result.reason } : result.counts;
    this.#log({ ...result.webhook, ...details, ...attributes, status: response.status });
    return response;
  }

  #traced(request: WebhookRequest, found: FoundSource, startedAt: number): Promise<WebhookResult> {
    const { tracing } = this.#settings;
    const { source } = found;
    const handled = async () => {
      const deadline = new ReceiveDeadline(source.receiveMs, startedAt);
      const result = await this.#handle(request, found, deadline).catch(failureOf);
      deadline.end();
      return result;
    };
    if (tracing === undefined) return handled();
    return inSpan(tracing, webhookSpan(source.name, request), handled, (result) =>
      webhookSpanEnd(responseOf(result, source).status, result),
    );
  }

  async #handle(
    request: WebhookRequest,
    { source, path }: FoundSource,
    deadline: ReceiveDeadline,
  ): Promise<WebhookResult> {
    const { method, headers } = request;
    const url = publicUrlOf(request, path, this.#settings);
    const head = createDelivery({ method, url, headers, body: new Uint8Array() }, source.plans);
    const handshake = source.handshakes.length === 0 ? undefined : findInHead(source, head);
    if (handshake !== undefined) {
      return deadline.within("the handshake", async () => {
        const refusal = await handshake.verify?.(head);
        return refusal === undefined ? answerHandshake(handshake, head) : refuse("unauthorized", refusal);
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
    const refusal = await deadline.within("fetching the secrets", () => source.verify.prepare(head));
    const mayBeHandshake = source.handshakes.some(({ store }) => store); // which its own token proves
    if (refusal !== undefined && !mayBeHandshake) return refuse("unauthorized", refusal);
    if (method === "GET") return this.#deliveries.accept(source, head, deadline);
    const body = await this.#read(request, source, deadline);
    if (typeof body === "string") return refuse(...bodyRefusals[body]);
    const delivery = createDelivery({ method, url, headers, body }, source.plans);
    return this.#deliveries.accept(source, delivery, deadline);
  }

  /** The time of the request may be over before that of the body. */
  async #read(
    request: WebhookRequest,
    { maxBodyBytes: maxBytes }: ResolvedSource,
    deadline: ReceiveDeadline,
  ): Promise<Uint8Array | BodyRefusal> {
    const leftMs = deadline.remainingMs();
    const withinMs = Math.min(this.#settings.bodyMs, leftMs);
    const body = await readBody(request, { maxBytes, withinMs, among: this.#unverified });
    if (body === "too slow" && withinMs === leftMs) throw deadline.overAt("reading the body");
    return body;
  }
}

/** Nobody guesses a JSON web token. */
const isGuess = (result: WebhookResult, { scheme }: ResolvedSource): boolean =>
  result.response === undefined && result.reason === "token wrong" && scheme.verify.kind !== "jwt";

/** Some providers expect other answers to refused requests than the usual ones. */
const responseOf = (result: WebhookResult, source: ResolvedSource | undefined): PlainResponse =>
  result.response ?? refusedResponse(result.outcome, result.headers, source?.scheme.refusals);

interface FoundSource {
  readonly source: ResolvedSource;
  /** `/webhooks/{source}` or `/webhooks/{source}/{tenant}`, without the prefix that a gateway adds. */
  readonly path: string;
}

/** Finds no source when the path names a tenant and the source does not read it from there. */
function findSource(url: string, sources: ReadonlyMap<string, ResolvedSource>): FoundSource | WebhookResult {
  const { path, source: encoded, tenant } = webhookPath(url);
  const source = sources.get(decoded(encoded) ?? "");
  if (source === undefined || (tenant !== undefined && !hasTenantInPath(source)))
    return refuse("not found", "no such source");
  return { source, path };
}

const hasTenantInPath = ({ tenant }: ResolvedSource): boolean =>
  tenant.flat().some(({ placeholder }) => placeholder === "path");

/**
 * Returns the URL that the provider called. Behind a gateway the request itself may have another one. Its text stays as it
 * was received, because schemes sign it: `URL` would write an apostrophe of the query as an escape.
 */
function publicUrlOf(
  { url, headers }: WebhookRequest,
  path: string,
  { publicUrl, trustForwardedHeaders }: Pick<WebhookRouteOptions, "publicUrl" | "trustForwardedHeaders">,
): string {
  const [, protocol = "", host = "", rest = ""] = /^(\w+):\/\/([^/?#]*)(.*)$/s.exec(url) ?? [];
  if (publicUrl !== undefined) {
    const [search = ""] = /\?[^#]*/.exec(rest) ?? [];
    return `${publicUrl.replace(/\/+$/, "")}${path}${search}`;
  }
  if (!trustForwardedHeaders) return url;
  // the outermost proxy adds the first value
  const forwarded = (name: string) => headers.get(name)?.split(",", 1)[0]?.trim() || undefined;
  const forwardedProtocol = forwarded("x-forwarded-proto") ?? protocol;
  const forwardedHost = forwarded("x-forwarded-host") ?? host;
  if (!/^https?$/.test(forwardedProtocol) || !/^[\w.:[\]-]*$/.test(forwardedHost)) return url;
  const called = `${forwardedProtocol}://${forwardedHost}${rest}`;
  return URL.canParse(called) ? called : url;
}

/** Options of the webhook route inside of Express and its like. */
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
