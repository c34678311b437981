import { omitUndefined } from "../base/defined.js";
import type { InboxReceiver } from "../inbox/receiver.js";
import { agesOf } from "../queue/retention.js";
import { defaults } from "../sql/store-options.js";
import { createWebhookReceiver, type WebhookReceiver } from "../webhooks/route.js";
import type { WebhookRouteOptions } from "../webhooks/route-options.js";
import { schemeReader } from "../webhooks/sources.js";
import type { AppDefinition, AppRetention } from "./definition.js";
import type { AppContext } from "./open-app.js";
import { noWebhooks, webhookSources } from "./sources.js";
import { coalesced } from "./wake-up.js";

/** The shortest time for which a done message of a source is kept. Its topic is the source's name, or begins with it and a dot. */
function shortestRetentionMs({ retentions = [], retentionMs }: AppDefinition, source: string): number {
  const mayFit = ({ queue = "inbox", topic, source: only = source }: AppRetention): boolean => {
    if (queue !== "inbox" || only !== source) return false;
    if (topic === undefined || topic === source || topic.startsWith(`${source}.`)) return true;
    return topic.endsWith("*") && `${source}.`.startsWith(topic.slice(0, -1));
  };
  return Math.min(...agesOf(retentions.filter(mayFit), "retentionMs", retentionMs ?? defaults.retentionMs));
}

interface WebhookApp extends AppContext {
  /** The inbox of the app's own database; undefined for an app with many tenants. */
  readonly inbox: InboxReceiver | undefined;
}

/** Receives webhooks, and wakes the dispatcher after each commit. */
export async function webhookJob({
  definition,
  environment,
  resolveSecret,
  inbox,
  logger,
  tenants,
  wakeUp: waker,
}: WebhookApp): Promise<WebhookReceiver> {
  const sources = webhookSources(definition.sources ?? {}, environment.sources ?? {}, resolveSecret);
  if (Object.keys(sources).length === 0) return noWebhooks(logger); // a process that only dispatches has no sources
  const wakeUp = waker === undefined ? undefined : coalesced(waker);
  waker?.prepare?.(); // while the rest of the cold start goes on
  const options: WebhookRouteOptions = {
    ...definition.webhooks,
    ...omitUndefined({
      publicUrl: environment.publicUrl,
      metrics: definition.metrics,
      tracing: definition.tracing,
      afterEnqueue: tenants?.wake ?? (wakeUp && (() => wakeUp.wake())),
    }),
    inbox: tenants === undefined ? inbox! : tenants.inboxFor,
    keptMs: (source) => shortestRetentionMs(definition, source),
    logger,
    sources,
  };
  const receiver = createWebhookReceiver(options, await schemeReader(sources));
  await receiver.prepare(); // wrong sources are an error of the start, not of the first webhook
  return receiver;
}
