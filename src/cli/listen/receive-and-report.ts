import { defined } from "../../base/defined.js";
import type { LogFields, Logger } from "../../base/logger.js";
import { createWebhookRoute } from "../../webhooks/route.js";
import type { ReceivedWebhook, WebhookInbox } from "../../webhooks/route-options.js";
import { createDelivery } from "../../webhooks/schemes/delivery.js";
import type { FetchText } from "../../webhooks/schemes/fetch-text.js";
import { secretsOfTenant } from "../source-secrets.js";
import type { Attempt } from "../verify/attempt.js";
import { type Explanation, explainRefusal } from "../verify/explain-refusal.js";
import { signedTexts } from "../verify/signed-texts.js";
import type { ListenSource } from "./listen-sources.js";
import { verificationTokenAdvice } from "./verification-token.js";

/** What came, and what became of it. */
export interface Report extends Explanation {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** The fields of the route's log line: source, outcome, id, topic, tenant, reason. */
  readonly fields: LogFields;
  /** The new messages: of a batch there may be several. */
  readonly events: readonly ReceivedWebhook[];
  /** The exact texts that the signatures must cover. */
  readonly signed: readonly string[];
}

export interface Listening {
  /** The address of a tunnel, without the path. */
  readonly publicUrl: string | undefined;
  readonly sources: ReadonlyMap<string, ListenSource>;
  readonly inbox: WebhookInbox;
  readonly fetchText: FetchText;
}

/** Lets the route receive a request, and explains its answer. */
export async function receiveAndReport(
  request: Request,
  body: Uint8Array,
  listening: Listening,
): Promise<{ readonly response: Response; readonly report: Report }> {
  const { method, headers } = request;
  const hasBody = method !== "GET" && method !== "HEAD";
  let fields: LogFields = {};
  const events: ReceivedWebhook[] = [];
  const keep = (_message: string, given?: LogFields): void => {
    fields = given ?? {};
  };
  const logger: Logger = { debug() {}, info: keep, warn: keep, error: keep };
  const { sources, inbox, fetchText, publicUrl } = listening;
  const route = createWebhookRoute({
    ...defined({ publicUrl }),
    inbox,
    fetchText,
    logger,
    afterEnqueue: (webhook) => events.push(webhook),
    // a handshake's token is that of the source: nothing else is at hand
    sources: Object.fromEntries([...sources].map(([name, one]) => [name, routeSource(one)])),
  });
  const response = await route(new Request(request.url, { method, headers, ...(hasBody ? { body } : {}) }));
  const source = sources.get(String(fields.source));
  const told = fields.reason === "signature missing" ? verificationTokenAdvice(body) : undefined;
  const { pathname, search } = new URL(request.url);
  const seen = { method, path: pathname + search, status: response.status, fields, events };
  if (source === undefined) return { response, report: { ...seen, signed: [] } };
  if (told !== undefined)
    return {
      response: new Response(null),
      report: { ...seen, status: 200, ...told, fields: {}, signed: [] },
    };
  const url = publicUrl === undefined ? request.url : publicUrl + pathname + search;
  const captured = { method, url, headers, body };
  const { scheme, toleranceMs } = source;
  const secrets = await secretsFor(source, captured);
  const attempt: Attempt = { request: captured, scheme, secrets, toleranceMs, at: new Date(), fetchText };
  // a tenant without secrets is unknown, which the route has said
  const isToExplain = fields.outcome === "unauthorized" && secrets.length > 0;
  const explanation = isToExplain ? await explainRefusal(attempt) : {};
  return { response, report: { ...seen, ...explanation, signed: signedTexts(attempt) } };
}

const secretsFor = async (
  { scheme, secrets, tenantSecrets }: ListenSource,
  request: Attempt["request"],
): Promise<readonly string[]> =>
  tenantSecrets === undefined ? secrets : secretsOfTenant(scheme, tenantSecrets, createDelivery(request));

const routeSource = ({ scheme, secrets, tenantSecrets, toleranceMs }: ListenSource) => {
  const asksForToken = scheme.handshakes?.some(({ verifyToken }) => verifyToken !== undefined) ?? false;
  return {
    scheme,
    ...(tenantSecrets === undefined ? { secrets } : { tenantSecrets }),
    allowShortSecrets: true,
    ...(asksForToken ? { verifyToken: secrets } : {}),
    ...(toleranceMs === undefined ? {} : { toleranceMs }),
  };
};
