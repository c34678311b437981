import { omitUndefined } from "../base/defined.js";
import type { InboxReceiver } from "../inbox/receiver.js";
import { createWebhookReceiver, type WebhookReceiver } from "../webhooks/route.js";
import type { WebhookRouteOptions } from "../webhooks/route-options.js";
import { schemeReader } from "../webhooks/sources.js";
import type { AppContext } from "./open-app.js";
import { shortestRetentionMs } from "./retention.js";
import { noWebhooks, webhookSources } from "./sources.js";
import { coalesced } from "./wake-up.js";

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
