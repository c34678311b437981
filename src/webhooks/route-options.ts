import type { LoggerOption } from "../base/logger.js";
import type { Metrics, Tracing } from "../base/telemetry.js";
import { InvalidArgumentError } from "../errors.js";
import type { Inbox } from "../inbox/inbox.js";
import { optionalCount, refuseUnknown, requireDuration } from "../queue/arguments.js";
import { usualToleranceMs } from "./replay-window.js";
import type { FetchText } from "./schemes/provider-keys.js";
import type { WebhookSource } from "./sources.js";

/** The part of an inbox that receives webhooks. */
export type WebhookInbox = Pick<Inbox, "receive" | "enqueue">;

/** Identifies a webhook that was received, without its content. */
export interface ReceivedWebhook {
  readonly source: string;
  readonly messageId: string;
  readonly topic: string;
  readonly tenant: string | null;
}

/** Options of the webhook route. */
export interface WebhookRouteOptions {
  /** The inbox that stores the messages, or a function that chooses one by tenant or source. */
  readonly inbox: WebhookInbox | ((webhook: ReceivedWebhook) => WebhookInbox | Promise<WebhookInbox>);
  /** By name, which is the part of the path after `/webhooks/`. */
  readonly sources: Readonly<Record<string, WebhookSource>>;
  /** Says `sharedTopics` for all sources: topics are without the source's name. */
  readonly sharedTopics?: boolean;
  /** Called for every new message after its commit, for example to wake a dispatcher. An error is logged. The answer waits for it no longer than `afterEnqueueMs`, and within `receiveMs`. */
  readonly afterEnqueue?: (webhook: ReceivedWebhook) => unknown;
  /** 1 s by default. */
  readonly afterEnqueueMs?: number;
  /**
   * The time from a request's arrival to its answer, for all its steps together: secrets, body, keys of the provider,
   * connection and enqueueing. Then the answer is 503. Providers give up after 3 s (Slack) to 20 s. 5 s by default.
   */
  readonly receiveMs?: number;
  /** 5 MiB by default. */
  readonly maxBodyBytes?: number;
  /** The time that a body may take to arrive, within `receiveMs`. 10 s by default. */
  readonly bodyMs?: number;
  /** The memory of all bodies that are being read, before their signatures are verified. 64 MiB by default, and at least one body. */
  readonly maxUnverifiedBytes?: number;
  /** How far a timestamp may differ from the clock. 5 minutes by default. */
  readonly toleranceMs?: number;
  /** How long the inbox knows a done message of a source. A source whose copied deliveries are accepted for longer is refused. */
  readonly keptMs?: (source: string) => number;
  /** How long fetched secrets are used before they are fetched again. 5 minutes by default. */
  readonly secretsMaxAgeMs?: number;
  /**
   * How late a wrong token is answered, so that guessing takes time: 1 s by default. At most 50 of each source wait, and the right token
   * never does. 0, as in a Lambda function, answers at once: there each waiting request would hold a function.
   */
  readonly wrongTokenMs?: number;
  /** The part before `/webhooks/…` of the URL that providers call. Schemes that sign the URL need it behind most gateways. */
  readonly publicUrl?: string;
  /** Takes host and protocol from X-Forwarded-Host and X-Forwarded-Proto. Use it only behind a proxy that sets them itself. */
  readonly trustForwardedHeaders?: boolean;
  readonly logger?: LoggerOption;
  readonly metrics?: Metrics;
  readonly tracing?: Tracing;
  /** Fetches certificates and keys of providers, by https from hosts that the scheme names. `fetch` by default. */
  readonly fetchText?: FetchText;
  /** The clock that timestamps are compared with, for tests. */
  readonly clock?: () => Date;
}

/** The defaults of the webhook route. */
export const webhookDefaults = {
  afterEnqueueMs: 1_000,
  receiveMs: 5_000,
  /** About the largest request that a Lambda function receives. */
  maxBodyBytes: 5 * 1024 * 1024,
  bodyMs: 10_000,
  maxUnverifiedBytes: 64 * 1024 * 1024,
  toleranceMs: usualToleranceMs,
  secretsMaxAgeMs: 5 * 60_000,
  wrongTokenMs: 1_000,
} as const;

const known = [
  "inbox",
  "sources",
  "sharedTopics",
  "afterEnqueue",
  "publicUrl",
  "trustForwardedHeaders",
  "logger",
  "metrics",
  "tracing",
  "clock",
  "fetchText",
  "keptMs",
  ...Object.keys(webhookDefaults),
];

/** Returns the options with the defaults filled in. */
export function checkRouteOptions(options: WebhookRouteOptions) {
  refuseUnknown(options, known, "webhooks");
  const settings = { ...webhookDefaults, ...options };
  for (const name of ["afterEnqueueMs", "receiveMs", "bodyMs", "secretsMaxAgeMs"] as const)
    requireDuration(settings[name], name);
  if (settings.wrongTokenMs !== 0) requireDuration(settings.wrongTokenMs, "wrongTokenMs");
  optionalCount(options.maxUnverifiedBytes, "maxUnverifiedBytes", 1);
  requirePublicUrl(options.publicUrl);
  const { inbox, afterEnqueue, sharedTopics = false } = options;
  if (typeof sharedTopics !== "boolean")
    throw new InvalidArgumentError("webhooks: sharedTopics must be true or false.");
  if (typeof inbox !== "function" && !isInbox(inbox)) {
    throw new InvalidArgumentError("webhooks: inbox must be an inbox, or a function that returns one.");
  }
  if (afterEnqueue !== undefined && typeof afterEnqueue !== "function") {
    throw new InvalidArgumentError("webhooks: afterEnqueue must be a function.");
  }
  return settings;
}

const isInbox = (inbox: WebhookInbox | undefined): boolean =>
  typeof inbox?.receive === "function" && typeof inbox.enqueue === "function";

function requirePublicUrl(url: string | undefined): void {
  if (url === undefined) return;
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!/^https?:$/.test(parsed?.protocol ?? "") || parsed?.search || parsed?.hash) {
    throw new InvalidArgumentError(
      "webhooks: publicUrl must be an http(s) URL without query, like https://api.example.com/prod.",
    );
  }
}
