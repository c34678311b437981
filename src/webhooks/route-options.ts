import type { Logger } from "../base/logger.js";
import type { Metrics } from "../base/metrics.js";
import { InvalidArgumentError } from "../errors.js";
import type { Inbox } from "../inbox/inbox.js";
import { refuseUnknown, requireDuration } from "../queue/arguments.js";
import type { WebhookSource } from "./sources.js";

/** All of an inbox that a webhook needs. */
export type WebhookInbox = Pick<Inbox, "receive">;

/** What arrived, without its content. */
export interface ReceivedWebhook {
  readonly source: string;
  readonly messageId: string;
  readonly topic: string;
  readonly tenant: string | null;
}

export interface WebhookRouteOptions {
  /** Where messages go; a function chooses by tenant or source. */
  readonly inbox: WebhookInbox | ((webhook: ReceivedWebhook) => WebhookInbox | Promise<WebhookInbox>);
  /** By name: the last part of the path. */
  readonly sources: Readonly<Record<string, WebhookSource>>;
  /** Told of every new message after its commit, to wake a dispatcher, say. What it throws is logged, and it is waited for no longer than `afterEnqueueMs`. */
  readonly afterEnqueue?: (webhook: ReceivedWebhook) => unknown;
  /** 1 s by default. */
  readonly afterEnqueueMs?: number;
  /** How long the database may take, and who keeps the secrets, before the answer is 503: providers hang up after 3 s (Slack) to 20 s. 5 s by default. */
  readonly receiveMs?: number;
  /** 5 MiB by default. */
  readonly maxBodyBytes?: number;
  /** How far timestamps may be off. 5 minutes by default. */
  readonly toleranceMs?: number;
  /** How long secrets that were fetched are used before they are asked for again. 5 minutes by default. */
  readonly secretsMaxAgeMs?: number;
  /** What stands before `/webhooks/…` in the URL that providers were given. Schemes that sign the URL need it behind most gateways. */
  readonly publicUrl?: string;
  /** Take host and protocol from X-Forwarded-Host and X-Forwarded-Proto: only behind a proxy that sets them itself. */
  readonly trustForwardedHeaders?: boolean;
  readonly logger?: Logger;
  readonly metrics?: Metrics;
  /** For tests: what timestamps are compared with. */
  readonly clock?: () => Date;
}

export const webhookDefaults = {
  afterEnqueueMs: 1_000,
  receiveMs: 5_000,
  /** About what a Lambda function can be sent. */
  maxBodyBytes: 5 * 1024 * 1024,
  toleranceMs: 5 * 60_000,
  secretsMaxAgeMs: 5 * 60_000,
} as const;

const known = [
  "inbox",
  "sources",
  "afterEnqueue",
  "publicUrl",
  "trustForwardedHeaders",
  "logger",
  "metrics",
  "clock",
  ...Object.keys(webhookDefaults),
];

/** The options with the defaults filled in. */
export function checkRouteOptions(options: WebhookRouteOptions) {
  refuseUnknown(options, known, "webhooks");
  const settings = { ...webhookDefaults, ...options };
  for (const name of ["afterEnqueueMs", "receiveMs", "secretsMaxAgeMs"] as const)
    requireDuration(settings[name], name);
  requirePublicUrl(options.publicUrl);
  const { inbox, afterEnqueue } = options;
  if (typeof inbox !== "function" && typeof inbox?.receive !== "function") {
    throw new InvalidArgumentError("webhooks: inbox must be an inbox, or a function that answers one.");
  }
  if (afterEnqueue !== undefined && typeof afterEnqueue !== "function") {
    throw new InvalidArgumentError("webhooks: afterEnqueue must be a function.");
  }
  return settings;
}

function requirePublicUrl(url: string | undefined): void {
  if (url === undefined) return;
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!/^https?:$/.test(parsed?.protocol ?? "") || parsed?.search || parsed?.hash) {
    throw new InvalidArgumentError(
      "webhooks: publicUrl must be an http(s) URL without query, like https://api.example.com/prod.",
    );
  }
}
