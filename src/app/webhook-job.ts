import type { Logger } from "../base/logger.js";
import type { Receiver } from "../inbox/receiver.js";
import { refusedAnswer } from "../webhooks/responses.js";
import { createWebhookReceiver, type WebhookReceiver } from "../webhooks/route.js";
import type { AppFrame } from "./app-frame.js";
import { webhookSources } from "./app-sources.js";
import { coalesced } from "./wake-up.js";

/** The inbox is of the app's own database, where it has one. */
export interface WebhookApp extends AppFrame {
  readonly inbox: Receiver | undefined;
}

/** Receives webhooks, and wakes the dispatcher for them. */
export function webhookJob({
  definition,
  environment,
  resolveSecret,
  inbox,
  logger,
  tenants,
  wakeUp: waker,
}: WebhookApp): WebhookReceiver {
  const sources = webhookSources(definition.sources ?? {}, environment.sources ?? {}, resolveSecret);
  if (Object.keys(sources).length === 0) return noWebhooks(logger); // a process that only dispatches needs none
  const wakeUp = waker === undefined ? undefined : coalesced(waker);
  waker?.prepare?.(); // beside everything else that a cold start waits for
  return createWebhookReceiver({
    ...definition.webhooks,
    ...(environment.publicUrl === undefined ? {} : { publicUrl: environment.publicUrl }),
    ...(definition.metrics === undefined ? {} : { metrics: definition.metrics }),
    inbox: tenants === undefined ? inbox! : tenants.inboxFor,
    logger,
    sources,
    ...(tenants !== undefined
      ? { afterEnqueue: tenants.wake }
      : wakeUp === undefined
        ? {}
        : { afterEnqueue: () => wakeUp.wake() }),
  });
}

const noWebhooks =
  (logger: Logger): WebhookReceiver =>
  async () => {
    const reason = "there are no sources: define some, or set ONCEBOX_WEBHOOKS";
    logger.warn("webhook", { source: "unknown", outcome: "not found", status: 404, reason });
    return refusedAnswer("not found");
  };
