import { defined } from "../base/defined.js";
import type { PlainRequest } from "../base/plain-http.js";
import { type SpanEnd, type SpanStart, traceHeaderNames } from "../base/tracing.js";
import type { ReceivedWebhook } from "./route-options.js";

/**
 * The span of one request. It links to the provider's context and is no child of it: anybody may send a `traceparent`, and
 * would decide what is sampled, and under which trace.
 */
export const webhookSpan = (source: string, { headers }: Pick<PlainRequest, "headers">): SpanStart => ({
  name: `webhook ${source}`,
  kind: "server",
  cause: Object.fromEntries(
    traceHeaderNames.flatMap((name) => {
      const value = headers.get(name);
      return value === null ? [] : [[name, value]];
    }),
  ),
  attributes: {
    "messaging.system": "oncebox",
    "messaging.operation.name": "receive",
    "oncebox.source": source,
  },
});

export const webhookSpanEnd = (status: number, outcome: string, webhook?: ReceivedWebhook): SpanEnd => ({
  error: status >= 500 ? outcome : undefined,
  attributes: defined({
    "oncebox.outcome": outcome,
    "http.response.status_code": status,
    "messaging.destination.name": webhook?.topic,
    "messaging.message.id": webhook?.messageId,
  }),
});
