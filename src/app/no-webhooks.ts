import type { Logger } from "../base/logger.js";
import { refusedResponse } from "../webhooks/responses.js";
import type { WebhookReceiver } from "../webhooks/route.js";

/** Refuses every webhook of an app without sources, and says why. */
export const noWebhooks =
  (logger: Logger): WebhookReceiver =>
  async () => {
    const reason = "there are no sources: define some, or set ONCEBOX_WEBHOOKS";
    logger.warn("webhook", { source: "unknown", outcome: "not found", status: 404, reason });
    return refusedResponse("not found");
  };
