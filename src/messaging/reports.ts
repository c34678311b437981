import type { Budget } from "../base/async.js";
import { withinTime } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import {
  type Logger,
  type LoggerOption,
  loggedError,
  loggerOf,
  silentLogger,
  withFields,
} from "../base/logger.js";
import { guardedMetrics, type MetricAttributes, type Metrics } from "../base/telemetry.js";
import { refusalLog } from "../http/refusal-log.js";
import type { OutboxKey } from "../queue/message.js";
import type { DeadLetterListener } from "../queue/work-store.js";
import { deadLogLine, saysExpired } from "../sql/dead-letters.js";
import type { DeadMessage } from "./service-options.js";
import type { ServiceParts } from "./service-parts.js";
import { toSentMessage } from "./stored-message.js";

/** A message on its way out, for logs and metrics. */
interface Outgoing {
  readonly messageId: string;
  readonly destination: string;
  readonly endpoint: string;
}

/** A message that came in, for logs and metrics. */
interface Incoming {
  readonly messageId: string;
  readonly sourceServiceId: string;
  readonly endpoint: string;
}

interface ReportOptions {
  readonly logger?: LoggerOption;
  readonly metrics?: Metrics;
  readonly clock?: () => Date;
}

const noMetrics: Metrics = { count() {}, duration() {} };

/** The counters and gauges of the specification, each with our own name for it. */
const ownNames = {
  rf_outbox_pending_count: "oncebox.messages.pending",
  rf_outbox_retry_count: "oncebox.messages.retries",
  rf_outbox_failed_count: "oncebox.messages.failed",
  rf_outbox_expired_count: "oncebox.messages.expired",
  rf_inbox_duplicate_count: "oncebox.messages.duplicates",
  rf_inbox_size: "oncebox.messages.inbox_size",
} as const;

/**
 * What a service writes to its log and counts. The names with `rf_` are those of the specification. Those with `oncebox.`
 * are ours, and those with `messaging.` follow OpenTelemetry. Nothing here gets a payload.
 */
export function serviceReports(serviceId: string, options: ReportOptions) {
  const { clock = () => new Date() } = options;
  const logger = withFields(loggerOf(options.logger), { service: serviceId });
  const logRefusal = refusalLog(logger, () => clock().getTime());
  const metrics = guardedMetrics(options.metrics ?? noMetrics);
  /** Under both names. */
  const measure = (
    kind: "count" | "gauge" | "histogram",
    name: keyof typeof ownNames,
    value: number,
    attributes: MetricAttributes,
  ): void => {
    metrics[kind](name, value, attributes);
    metrics[kind](ownNames[name], value, attributes);
  };
  const outgoing = ({ destination, endpoint }: Outgoing) => ({ destination, endpoint });
  const incoming = ({ sourceServiceId, endpoint }: Incoming) => ({ source: sourceServiceId, endpoint });
  const counts = { received: 0, duplicates: 0 };
  const conventional = (name: string, destination: string) => ({
    "messaging.system": "oncebox",
    "messaging.operation.name": name,
    "messaging.destination.name": destination,
  });

  return {
    logger,

    enqueued(message: Outgoing): void {
      logger.info("Outbox: message enqueued", { ...message });
    },
    sent(message: Outgoing, durationMs: number, retries: number): void {
      logger.info("Outbox: message sent successfully", { ...message, durationMs: Math.round(durationMs) });
      measure("histogram", "rf_outbox_retry_count", retries, outgoing(message));
    },
    sendTook(message: Outgoing, ms: number): void {
      metrics.duration("rf_outbox_send_duration_ms", ms, outgoing(message));
      metrics.duration("messaging.client.operation.duration", ms, conventional("send", message.destination));
    },
    sendFailed(message: Outgoing, retryCount: number, maxRetries: number, error: string): void {
      logger.warn("Outbox: message send failed", { ...message, retryCount, maxRetries, error });
    },
    failed(message: Outgoing, retries: number, maxRetries: number, error: string): void {
      logger.error("Outbox: message permanently failed", { ...message, maxRetries, error });
      measure("histogram", "rf_outbox_retry_count", retries, outgoing(message));
      measure("count", "rf_outbox_failed_count", 1, outgoing(message));
    },
    resent(count: number, destination: string | undefined): void {
      logger.warn("Outbox: messages resent", { resent: count, ...omitUndefined({ destination }) });
    },
    expired(message: Outgoing): void {
      logger.error("Outbox: message expired", { ...message });
      measure("count", "rf_outbox_expired_count", 1, outgoing(message));
    },

    processed(message: Incoming, ms: number): void {
      counts.received++;
      logger.info("Inbox: message processed", { ...message, durationMs: Math.round(ms) });
      metrics.duration("rf_inbox_process_duration_ms", ms, incoming(message));
      metrics.duration("messaging.process.duration", ms, conventional("process", serviceId));
    },
    duplicate(message: Incoming): void {
      counts.received++;
      counts.duplicates++;
      logger.warn("Inbox: duplicate detected", { ...message });
      measure("count", "rf_inbox_duplicate_count", 1, incoming(message));
    },
    notProcessed(message: Incoming, error: unknown): void {
      logger.error("Inbox: message not processed", { ...message, ...loggedError(error) });
    },
    /** Its id and source are what the message claims. They have the form of an id and of a name, and nothing proves them. */
    notVerified(message: Omit<Incoming, "endpoint">, reason: string): void {
      const fields = { ...message, reason };
      // Only of a known source a signature is compared, and these are few. Anybody can make up others.
      const detail = reason === "signature wrong" ? message.sourceServiceId : undefined;
      logRefusal({
        level: "warn",
        message: "Inbox: HMAC verification failed",
        fields,
        kind: [reason],
        detail,
      });
    },
    notAllowed(message: Incoming): void {
      logger.warn("Inbox: the source may not call this endpoint", { ...message });
    },
    malformed(reason: string): void {
      const message = "Inbox: malformed message refused";
      logRefusal({ level: "warn", message, fields: { reason }, kind: [], detail: reason });
    },

    /** What has come in so far. */
    received: () => ({
      ...counts,
      duplicateRate: counts.received === 0 ? null : counts.duplicates / counts.received,
    }),
    sizes(pending: number, inboxSize: number): void {
      measure("gauge", "rf_outbox_pending_count", pending, {});
      measure("gauge", "rf_inbox_size", inboxSize, {});
    },
  };
}

/** For stores and dispatcher: what they log of each message is in the lines above, a dead one's too. */
export const otherWarnings = (logger: Logger): Logger => ({
  ...silentLogger,
  warn(message, fields) {
    if (message !== deadLogLine) logger.warn(message, fields);
  },
  error: logger.error,
});

export type Reports = ReturnType<typeof serviceReports>;

export interface DeadMessages {
  /** Reports each message that fails or expires, also to the service's `onDead`. */
  readonly listener: DeadLetterListener<OutboxKey>;
  /**
   * Resolves when every call of `onDead` has ended: after `handlerTimeoutMs` at the latest, and within the budget of a
   * function, whose platform may freeze the process after that. Calls that are given up are logged.
   */
  ended(budget?: Budget): Promise<void>;
}

/** The time that the function needs to return its result. */
const returnMs = 50;

/** The store does not wait for its listener, so the calls that run are kept here. */
export function deadMessages(parts: () => ServiceParts): DeadMessages {
  const running = new Set<Promise<void>>();
  return {
    listener(dead) {
      const call = reportDead(parts(), dead);
      running.add(call);
      return call.finally(() => running.delete(call));
    },
    async ended(budget) {
      if (running.size === 0) return;
      const { settings, reports } = parts();
      const leftMs = budget === undefined ? settings.handlerTimeoutMs : budget.remainingMs() - returnMs;
      const ms = Math.max(0, Math.min(leftMs, settings.handlerTimeoutMs));
      const all = Promise.allSettled(running);
      await withinTime(ms, all, () => new Error("late")).catch(() => {
        reports.logger.error("onDead is still running, and is not waited for", {
          calls: running.size,
        });
      });
    },
  };
}

async function reportDead(
  { outbox, options, settings, reports, now }: ServiceParts,
  { message: key, reason }: Parameters<DeadLetterListener<OutboxKey>>[0],
): Promise<void> {
  const found = await outbox.get(key);
  if (found === null) return;
  const sent = toSentMessage(found, settings.retry.maxRetries, now());
  // By what has happened, not by the time: a message that fails past its expiry is reported as Failed, and then as Expired.
  const state = saysExpired(reason) ? "Expired" : "Failed";
  const dead: DeadMessage = { ...sent, state, payload: JSON.parse(found.payload) as unknown };
  const { messageId, destination, endpoint, retryCount, maxRetries } = dead;
  const error = sent.lastError ?? reason;
  if (state === "Expired") reports.expired({ messageId, destination, endpoint });
  else reports.failed({ messageId, destination, endpoint }, retryCount, maxRetries, error);
  await options.onDead?.(dead, { state, error });
}
