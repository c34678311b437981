/** A metric, and what it measures. */
export interface MetricEntry {
  readonly kind: "count" | "duration" | "gauge" | "histogram";
  /** Of the value that a sink gets, in UCUM (https://ucum.org). Braces name what is counted. */
  readonly unit: "ms" | "{message}" | "{request}" | "{run}" | "{handler}" | "{event}" | "{retry}";
  readonly attributes: readonly string[];
  readonly description: string;
}

const entry = (
  kind: MetricEntry["kind"],
  unit: MetricEntry["unit"],
  attributes: readonly string[],
  description: string,
): MetricEntry => ({ kind, unit, attributes, description });

const messaging = ["messaging.system", "messaging.operation.name", "messaging.destination.name"];
const endpoint = ["destination", "endpoint"];
const sender = ["source", "endpoint"];

/** Every metric of this package. Tests compare it with what is emitted, with docs/telemetry.md and with the dashboard. */
export const metricTable: Readonly<Record<string, MetricEntry>> = {
  "oncebox.webhook": entry("count", "{request}", ["source", "outcome"], "Webhook requests"),
  "oncebox.webhook.duration": entry("duration", "ms", ["source", "outcome"], "Time of a webhook request"),
  "oncebox.received": entry("count", "{message}", ["queue", "source", "outcome"], "Received messages"),
  "oncebox.enqueued": entry("count", "{message}", ["queue", "topic"], "Messages enqueued in an outbox"),
  "oncebox.claimed": entry("count", "{message}", ["queue"], "Claimed messages"),
  "oncebox.acked": entry("count", "{message}", ["queue"], "Acknowledged messages"),
  "oncebox.retried": entry("count", "{message}", ["queue"], "Messages given back for a retry"),
  "oncebox.released": entry("count", "{message}", ["queue"], "Messages given back without an attempt"),
  "oncebox.lease.lost": entry("count", "{message}", ["queue"], "Messages whose lease was lost"),
  "oncebox.dead": entry("count", "{message}", ["queue", "reason"], "Messages that became dead"),
  "oncebox.runs": entry("count", "{run}", ["queue", "stopped"], "Runs of a dispatcher, by why they ended"),
  "oncebox.handled": entry("count", "{message}", ["topic", "outcome"], "Handled messages"),
  "oncebox.handler.duration": entry("duration", "ms", ["topic", "outcome"], "Time of a handler"),
  "oncebox.unhandled": entry("count", "{message}", ["queue"], "Messages acknowledged without a handler"),
  "oncebox.handler.stuck": entry("count", "{handler}", ["topic"], "Handlers that ignore their signal"),
  "oncebox.send.duration": entry("duration", "ms", ["destination", "outcome"], "Time of a publisher's send"),
  "oncebox.breaker": entry("count", "{event}", ["destination", "event"], "Events of circuit breakers"),
  "oncebox.queue.due": entry("gauge", "{message}", ["queue"], "Messages that could be claimed now"),
  "oncebox.queue.oldest_due_age": entry("gauge", "ms", ["queue"], "Wait of the oldest due message"),
  "oncebox.queue.messages": entry(
    "gauge",
    "{message}",
    ["queue", "state"],
    "Messages that are waiting, retrying, running, paused, done or dead",
  ),

  rf_outbox_pending_count: entry("gauge", "{message}", [], "Messages to send"),
  rf_outbox_send_duration_ms: entry("duration", "ms", endpoint, "Time of one delivery"),
  rf_outbox_retry_count: entry("histogram", "{retry}", endpoint, "Retries of a message"),
  rf_outbox_failed_count: entry("count", "{message}", endpoint, "Failed messages"),
  rf_outbox_expired_count: entry("count", "{message}", endpoint, "Expired messages"),
  rf_inbox_duplicate_count: entry("count", "{message}", sender, "Duplicates"),
  rf_inbox_process_duration_ms: entry("duration", "ms", sender, "Time of a received message"),
  rf_inbox_size: entry("gauge", "{message}", [], "Messages remembered as handled"),
  "oncebox.messages.pending": entry("gauge", "{message}", [], "Messages to send"),
  "oncebox.messages.retries": entry("histogram", "{retry}", endpoint, "Retries of a message"),
  "oncebox.messages.failed": entry("count", "{message}", endpoint, "Failed messages"),
  "oncebox.messages.expired": entry("count", "{message}", endpoint, "Expired messages"),
  "oncebox.messages.duplicates": entry("count", "{message}", sender, "Duplicates"),
  "oncebox.messages.inbox_size": entry("gauge", "{message}", [], "Messages remembered as handled"),

  "messaging.client.operation.duration": entry(
    "duration",
    "ms",
    [...messaging, "error.type"],
    "Time of a send",
  ),
  "messaging.process.duration": entry("duration", "ms", [...messaging, "error.type"], "Time of a handler"),
  "messaging.client.consumed.messages": entry("count", "{message}", messaging, "Claimed messages"),
  "messaging.client.sent.messages": entry("count", "{message}", messaging, "Enqueued messages"),
};
